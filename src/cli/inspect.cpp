#include "cli/command.h"
#include "cli/inspect_drafts.h"
#include "cli/inspect_report.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "core/error.h"

namespace talon {
namespace {

class Inspect : public Command {
 public:
  explicit Inspect(CLI::App& parent)
      : Command(parent.add_subcommand(
            "inspect", "what a model's files hold and how they are kept in memory")) {
    app_->add_option("model", options_.model,
                     "file, folder, catalogue name or OWNER/NAME[@REVISION][:FILE]")
        ->type_name("FILE|FOLDER");
    app_->add_flag("--machine", machine_, "instead: this machine, its kernels, its speed");
    app_->add_flag("--json", json_, "print one JSON object");
    app_->add_option("--for", target_, "of a draft head: whether it fits this model")
        ->type_name("MODEL");
    add_models_folder_flag(*app_, options_.models_folder);
    add_cells_flag(*app_, options_);
    add_forward_flags(*app_, options_);
  }

  int run() override {
    if (machine_ == !options_.model.empty())
      throw UsageError("inspect: expected either a model or --machine");
    if (machine_ && !target_.empty())
      throw UsageError("--for: expected a draft head, got --machine");
    const Json report = machine_ ? inspect_machine(options_) : inspect_model();
    if (json_) {
      write_json(report);
    } else {
      write_output(machine_ ? machine_text(report) : inspect_text(report));
    }
    return kExitDone;
  }

 private:
  Json inspect_model() const {
    const Checkpoint checkpoint = open_files(source_of(options_));
    Json report = inspect_checkpoint(checkpoint, options_);
    if (!target_.empty()) {
      ModelOptions target = options_;
      target.model = target_;
      report["fit"] = inspect_fit(checkpoint, target);
    }
    return report;
  }

  ModelOptions options_;
  std::string target_;
  bool machine_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect(CLI::App& parent) {
  return std::make_unique<Inspect>(parent);
}

}  // namespace talon
