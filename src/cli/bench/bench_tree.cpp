#include <filesystem>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "core/error.h"
#include "trace/tree_report.h"

namespace talon {
namespace {

class BenchTree : public Command {
 public:
  explicit BenchTree(CLI::App& parent)
      : Command(parent.add_subcommand("tree", "a page with the trees of a trace")) {
    app_->add_option("trace", trace_,
                     "what `talon run --trace` or `talon bench spec --trace` wrote")
        ->type_name("FILE")
        ->required();
    app_->add_option("-o,--output", output_, "the page (default: FILE.html)")
        ->type_name("HTML")
        ->check(no_empty_text);
    add_int(*app_, "--trees", trees_, 0, 1000, "trees drawn");
    app_->add_flag("--json", json_, "print one JSON object");
  }

  int run() override {
    const Trace trace = read_trace(trace_);
    if (trace.rounds.empty()) fail("bench tree: {}: expected rounds, found none", trace_);
    const std::string output = output_.empty() ? trace_ + ".html" : output_;
    std::error_code missing;
    if (std::filesystem::equivalent(trace_, output, missing))
      fail("bench tree: expected another file than the trace, found {}", output);
    write_html(output,
               tree_report(trace, std::filesystem::path(trace_).filename().string(), trees_));
    if (json_) {
      write_json({{"page", output}, {"rounds", trace.rounds.size()}});
    } else {
      write_output(output + "\n");
    }
    return kExitDone;
  }

 private:
  std::string trace_, output_;
  int trees_ = 8;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_tree(CLI::App& parent) {
  return std::make_unique<BenchTree>(parent);
}

}  // namespace talon
