#include "bench/spec/field.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"

namespace talon {
namespace {

class BenchField : public Command {
 public:
  explicit BenchField(CLI::App& parent)
      : Command(parent.add_subcommand(
            "field", "runs of bench spec on several models as one comparison of all methods")) {
    app_->add_option("RUNS", runs_, "results of talon bench spec, one file a model")->required();
    app_->add_option("--report", report_, "write field.html, field.md and field.jsonl there")
        ->type_name("DIR")
        ->check(no_empty_text);
    app_->add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  int run() override {
    std::vector<SpecFile> runs;
    for (const std::string& run : runs_) runs.push_back(read_spec_file(run));
    const std::vector<Json> lines = field_lines(runs);
    for (const Json& line : lines) write_json(line);
    const std::string markdown = field_markdown(lines);
    note("{}", markdown);
    if (report_.empty()) return kExitDone;
    write_report(report_, "field", field_report(lines), markdown, lines);
    return kExitDone;
  }

 private:
  std::vector<std::string> runs_;
  std::string report_;
};

}  // namespace

std::unique_ptr<Command> make_bench_field(CLI::App& parent) {
  return std::make_unique<BenchField>(parent);
}

}  // namespace talon
