#include <filesystem>

#include "bench/provenance.h"
#include "bench/signature.h"
#include "cli/command.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "core/error.h"

namespace talon {
namespace {

constexpr const char* kModelFile = "tests/data/models/stories260K.bin";

class BenchSignature : public Command {
 public:
  explicit BenchSignature(CLI::App& parent)
      : Command(parent.add_subcommand(
            "signature", "one number for what the engine does, equal on every machine")) {
    model_.model = kModelFile;
    app_->add_option("-m,--model", model_.model, "the small model to decode with")
        ->type_name("MODEL")
        ->capture_default_str();
    app_->add_flag("--json", json_, "print one JSON object");
  }

  int run() override {
    std::error_code ignored;
    if (model_.model == kModelFile && !std::filesystem::exists(kModelFile, ignored)) {
      throw UsageError(fmt::format(
          "bench signature: run it in the repository, where {} is, or give -m", kModelFile));
    }
    model_.backend = BackendKind::reference;
    model_.kv = KvType::f32;
    const OpenedModel opened = open_model_with_cache(model_);
    const std::string signature =
        signature_text(engine_signature(opened.model, *opened.cache, opened.require_tokenizer()));
    if (json_) {
      Json line = provenance(Json::object());
      line["model"] = model_.model;
      line["backend"] = opened.backend->description();
      line["signature"] = signature;
      write_json(line);
    } else {
      write_output(signature + "\n");
    }
    return kExitDone;
  }

 private:
  ModelOptions model_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_signature(CLI::App& parent) {
  return std::make_unique<BenchSignature>(parent);
}

}  // namespace talon
