#include <algorithm>

#include "bench/spec/compare.h"
#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "report/table.h"

namespace talon {
namespace {

class BenchCompare : public Command {
 public:
  explicit BenchCompare(CLI::App& parent)
      : Command(parent.add_subcommand(
            "compare",
            "what changed between two runs, beyond doubt; fails if something got worse")) {
    app_->add_option("BEFORE", before_, "JSON lines of talon bench")->required();
    app_->add_option("AFTER", after_, "JSON lines of the same bench")->required();
    add_choice<CompareMetric>(*app_, "--metric", metric_,
                              {{"tok_s", CompareMetric::tok_s},
                               {"speedup", CompareMetric::speedup},
                               {"tau", CompareMetric::tau}},
                              "of bench spec");
    add_real(*app_, "--tolerance", tolerance_, 0, 1, "changes up to this share are none");
    app_->add_flag("--json", json_, "print JSON lines");
    app_->footer(
        "Exit code 0: nothing got worse. 1: something did, beyond doubt and the tolerance, or an "
        "answer that had the tokens of plain decoding lost them. 2: wrong usage.");
  }

  int run() override {
    const std::vector<Change> changes = compare_results(before_, after_, metric_);
    const bool worse = std::any_of(changes.begin(), changes.end(), [&](const Change& change) {
      return change.worse(tolerance_) || change.broken > 0;
    });
    if (json_) {
      for (const Change& change : changes) write_json(json_of(change));
      write_json({{"worse", worse}, {"before", before_}, {"after", after_}});
    } else {
      write_output(markdown_of(table_of(changes)));
    }
    return worse ? kExitFailed : kExitDone;
  }

 private:
  std::string verdict(const Change& change) const {
    if (change.broken > 0) return fmt::format("BROKEN: {} answers", change.broken);
    if (!change.is_known) return "too few questions to say";
    if (change.worse(tolerance_)) return "WORSE";
    return change.better(tolerance_) ? "better" : "no sure change";
  }

  Json json_of(const Change& change) const {
    return {{"name", change.name},
            {"metric", change.metric},
            {"before", change.before},
            {"after", change.after},
            {"ratio", change.ratio},
            {"ratio_low", change.ratio_range.low},
            {"ratio_high", change.ratio_range.high},
            {"pairs", change.pairs},
            {"broken", change.broken},
            {"verdict", verdict(change)}};
  }

  Table table_of(const std::vector<Change>& changes) const {
    Table table;
    table.columns = {"what", "metric", "before", "after", "ratio", "95 % interval", "pairs", ""};
    for (const Change& change : changes) {
      table.rows.push_back(
          {change.name, change.metric, fmt::format("{:.2f}", change.before),
           fmt::format("{:.2f}", change.after), fmt::format("{:.3f}", change.ratio),
           change.is_known
               ? fmt::format("[{:.3f}, {:.3f}]", change.ratio_range.low, change.ratio_range.high)
               : "–",
           fmt::format("{}", change.pairs), verdict(change)});
    }
    return table;
  }

  std::string before_, after_;
  CompareMetric metric_ = CompareMetric::tok_s;
  double tolerance_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_compare(CLI::App& parent) {
  return std::make_unique<BenchCompare>(parent);
}

}  // namespace talon
