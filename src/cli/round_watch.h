#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/options/opened_model.h"
#include "trace/trace.h"

namespace talon {

/// What --show-tree and --trace ask for.
struct WatchOptions {
  std::string trace;  // file; empty: none
  bool show_tree = false;
  int tree_round = 0;  // 0: the round that accepted most

  bool any() const { return show_tree || !trace.empty(); }
};
void add_watch_flags(CLI::App& app, WatchOptions& options);

/// Sees the rounds of one answer. The opened is borrowed.
class RoundWatch {
 public:
  /// about: what the trace's first line says of the run. Throws Error if the file cannot be made.
  RoundWatch(const WatchOptions& options, const OpenedModel& opened, std::string drafter,
             Json about);

  /// Refers to this.
  RoundObserver observer();
  /// Ends the trace. Throws Error unless all of it was written.
  void finish();
  /// The tree asked for, for the terminal, with colours if `color`; nothing if no round drafted or
  /// none was asked for.
  std::optional<std::string> shown_tree(bool color) const;

 private:
  void see(const RoundReport& report);
  bool is_better(const RoundReport& report) const;

  WatchOptions options_;
  const Tokenizer* tokenizer_;
  std::string drafter_;
  std::unique_ptr<TraceWriter> writer_;
  std::optional<TraceRound> kept_;
};

}  // namespace talon
