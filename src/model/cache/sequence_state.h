#pragma once

#include <span>
#include <vector>

#include "model/cache/state_memory.h"

namespace talon {

/// The state of one sequence in the layers that keep one. Gives its slot back when destroyed.
class SequenceState {
 public:
  explicit SequenceState(StateMemory& memory) : memory_(memory) {}
  ~SequenceState();
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  /// Has a slot, or takes one.
  bool claim();
  /// Begins behind the most of `text` that is remembered; how much that is.
  int begin(const TextRoot& root, std::span<const TokenId> text);
  /// Where the state is worth a snapshot: where a text parts from another, or its answer begins.
  void save_at(std::vector<int> positions) { wanted_ = std::move(positions); }

  /// Adds the rows of a forward behind `length` positions to `layout`: row i of the sequence is row
  /// first + i of the forward, -1 as a parent the committed text. `kept`: all of them will be, so
  /// the forward writes the state behind them; else their inputs lie from row `flight` on.
  void lay_out(int length, int first, int count, std::span<const NodeId> parents, bool kept,
               int flight, AttentionLayout& layout);
  /// The forward is done.
  void settle();
  /// Rows `path` of the forward are text from now on: its last tokens.
  void commit(const TextRoot& root, std::span<const TokenId> text, std::span<const NodeId> path);
  /// Whatever the state is, it is that behind `length` tokens.
  void assume(int length);
  /// The text has ended, or is to be run again.
  void end(const TextRoot& root, std::span<const TokenId> text) noexcept;

 private:
  struct Save {
    int position;
    int slot;
  };
  static constexpr int kNowhere = -1;
  int take_save(int position);

  StateMemory& memory_;
  std::optional<int> slot_;
  int position_ = 0;  // tokens behind which the slot's state is; kNowhere: a forward failed
  int next_ = 0;      // what position_ will be when the forward in flight is done
  int flight_ = 0;
  std::vector<int> wanted_;
  std::vector<Save> saves_;  // written by the forward or replay, not yet snapshots
};

}  // namespace talon
