#include "model/cache/state_memory.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

StateMemory::StateMemory(Backend& backend, const StateShape& shape)
    : backend_(backend), shape_(shape) {
  if (shape.layers == 0) return;
  expects(shape.slots >= 1, "a slot for a sequence");
  if (shape.state_values() > 0) {
    states_ = backend.allocate(shape.layers * shape.slots, shape.state_values());
  }
  tails_ = backend.allocate(shape.layers * shape.slots, shape.tail_values());
  for (int slot = shape.slots - 1; slot >= 0; --slot) unused_.push_back(slot);
  unused_.reserve(static_cast<std::size_t>(shape.slots));
  snapshots_.reserve(static_cast<std::size_t>(shape.slots));
}

std::size_t StateMemory::bytes() const {
  return shape_.slot_bytes() * static_cast<std::size_t>(shape_.slots);
}

void StateMemory::describe(std::vector<RecurrentArgs> layers) {
  expects(static_cast<int>(layers.size()) == shape_.layers, "every layer with a state");
  layers_ = std::move(layers);
}

void StateMemory::reserve_flight(int rows) {
  if (rows <= flight_rows_) return;
  flight_rows_ = 0;
  flight_ = backend_.allocate(shape_.layers * rows, shape_.input_cols());
  flight_rows_ = rows;
}

View StateMemory::flight(int layer, int rows) const {
  return flight_.view().row_range(layer * flight_rows_, rows);
}

void StateMemory::replay(const StateRun& run, std::span<const StateRow> rows) {
  AttentionLayout layout;
  layout.runs.push_back(run);
  layout.state_rows.assign(rows.begin(), rows.end());
  const auto prepared = backend_.prepare(layout);
  for (int index = 0; index < shape_.layers; ++index) {
    RecurrentArgs args = layer(index);
    args.inputs = flight(index, flight_rows_);
    args.layout = prepared.get();
    backend_.recurrent(args);
  }
  backend_.synchronize();  // the layout ends here
}

std::optional<int> StateMemory::take() {
  if (unused_.empty() && !snapshots_.empty()) {
    unused_.push_back(snapshots_.front().slot);
    snapshots_.erase(snapshots_.begin());
  }
  if (unused_.empty()) return std::nullopt;
  const int slot = unused_.back();
  unused_.pop_back();
  return slot;
}

void StateMemory::remember(int slot, const TextRoot& root, std::span<const TokenId> tokens) {
  const auto same = [&](const Snapshot& known) {
    return known.root == root && std::ranges::equal(known.tokens, tokens);
  };
  if (const auto known = std::ranges::find_if(snapshots_, same); known != snapshots_.end()) {
    give(slot);
    std::rotate(known, known + 1, snapshots_.end());
    return;
  }
  snapshots_.push_back({slot, root, {tokens.begin(), tokens.end()}});
}

int StateMemory::recall(const TextRoot& root, std::span<const TokenId> tokens, int slot) {
  auto best = snapshots_.end();
  for (auto it = snapshots_.begin(); it != snapshots_.end(); ++it) {
    const bool begins = it->root == root && it->tokens.size() <= tokens.size() &&
                        std::equal(it->tokens.begin(), it->tokens.end(), tokens.begin());
    if (!begins) continue;
    if (best == snapshots_.end() || it->tokens.size() > best->tokens.size()) best = it;
  }
  if (best == snapshots_.end()) return 0;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (const View& all : {states(layer), tails(layer)}) {
      if (all.cols > 0) backend_.copy(all.row_range(best->slot, 1), all.row_range(slot, 1));
    }
  }
  const auto length = static_cast<int>(best->tokens.size());
  std::rotate(best, best + 1, snapshots_.end());
  return length;
}

}  // namespace talon
