#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/index_list.h"
#include "core/types.h"
#include "model/cache/page_index.h"

namespace talon {

/// The states of layers that keep one, in slots: a sequence that runs has one, which holds its
/// state behind its committed text. The others hold snapshots, states behind texts that a later one
/// may begin with; the one longest unused is given up when a slot is wanted. Beside them lie the
/// inputs of rows in flight, from which the state behind those that are kept is made anew.
class StateMemory {
 public:
  StateMemory(Backend& backend, const StateShape& shape);

  const StateShape& shape() const { return shape_; }
  std::size_t bytes() const;

  /// Weights of every layer with a state, with views of the states: what a forward runs. They
  /// outlive the memory's use.
  void describe(std::vector<RecurrentArgs> layers);
  const RecurrentArgs& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
  View states(int layer) const { return rows_of(states_, layer); }  // or empty
  View tails(int layer) const { return rows_of(tails_, layer); }

  /// Room for the inputs of `rows` rows in flight, of every layer. The next call may overwrite
  /// them.
  void reserve_flight(int rows);
  View flight(int layer, int rows) const;
  /// Of how many rows; their memory moves when it grows.
  int flight_room() const { return flight_rows_; }
  /// The state behind the rows in flight that `rows` lists, one after the other, all layers.
  void replay(const StateRun& run, std::span<const StateRow> rows);

  /// An unused slot, or that of a snapshot; nothing when sequences have all.
  std::optional<int> take();
  void give(int slot) { unused_.push_back(slot); }
  /// The slot's state is that behind `tokens`; the slot is the memory's again.
  void remember(int slot, const TextRoot& root, std::span<const TokenId> tokens);
  /// Copies the snapshot behind the most of the first `most` tokens to `slot`; how many, 0: none.
  int recall(const TextRoot& root, std::span<const TokenId> tokens, int slot);

 private:
  struct Snapshot {
    int slot;
    TextRoot root;
    std::vector<TokenId> tokens;
  };
  View rows_of(const Buffer& buffer, int layer) const {
    return buffer.view().row_range(layer * shape_.slots, shape_.slots);
  }

  Backend& backend_;
  StateShape shape_;
  Buffer states_, tails_;  // [layers * slots, values]; states_ empty where only tails are kept
  Buffer flight_;          // [layers * flight_rows_, input_cols]
  int flight_rows_ = 0;
  std::vector<RecurrentArgs> layers_;
  std::vector<int> unused_;
  std::vector<Snapshot> snapshots_;  // longest unused first
};

}  // namespace talon
