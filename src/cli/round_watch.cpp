#include "cli/round_watch.h"

#include <utility>

#include "cli/options/flags.h"
#include "core/error.h"
#include "trace/tree_text.h"

namespace talon {
namespace {

std::function<std::string(TokenId)> bytes_of(const Tokenizer* tokenizer) {
  if (!tokenizer) return {};
  return [tokenizer](TokenId token) { return tokenizer->bytes_of(token); };
}

}  // namespace

void add_watch_flags(CLI::App& app, WatchOptions& options) {
  app.add_option("--trace", options.trace,
                 "write every round there as JSON lines (talon bench tree reads them)")
      ->type_name("FILE")
      ->check(no_empty_text);
  app.add_option_function<std::string>(
         "--show-tree",
         [&options](const std::string& round) {
           options.show_tree = true;
           if (!round.empty()) {
             options.tree_round = static_cast<int>(parse_int("--show-tree", round, 1, 1 << 30));
           }
         },
         "show the tree of a round: of the one that accepted most, or number ROUND")
      ->type_name("[ROUND]")
      ->expected(0, 1);
}

RoundWatch::RoundWatch(const WatchOptions& options, const OpenedModel& opened, std::string drafter,
                       Json about)
    : options_(options), tokenizer_(opened.tokenizer_or_null()), drafter_(std::move(drafter)) {
  if (options.trace.empty()) return;
  writer_ = std::make_unique<TraceWriter>(options.trace, std::move(about), bytes_of(tokenizer_));
}

RoundObserver RoundWatch::observer() {
  return [this](const RoundReport& report) { see(report); };
}

void RoundWatch::see(const RoundReport& report) {
  if (writer_) writer_->write(report);
  if (options_.show_tree && is_better(report)) kept_ = keep(report);
}

bool RoundWatch::is_better(const RoundReport& report) const {
  if (options_.tree_round > 0) return report.round == options_.tree_round;
  if (report.tree->draft_nodes() == 0) return false;
  return !kept_ || report.accepted.size() > kept_->accepted.size();
}

void RoundWatch::finish() {
  if (writer_) writer_->finish();
}

std::optional<std::string> RoundWatch::shown_tree(bool color) const {
  if (!options_.show_tree) return std::nullopt;
  if (!kept_ && options_.tree_round > 0) {
    return fmt::format("--show-tree: there was no round {}\n", options_.tree_round);
  }
  if (!kept_) return "--show-tree: nothing was drafted\n";
  return tree_text(report_of(*kept_), {bytes_of(tokenizer_), color, source_names(drafter_)});
}

}  // namespace talon
