#include "model/cache/sequence_state.h"

#include <algorithm>
#include <new>

#include "core/error.h"

namespace talon {

SequenceState::~SequenceState() {
  for (const Save& save : saves_) memory_.give(save.slot);
  if (slot_) memory_.give(*slot_);
}

bool SequenceState::claim() {
  if (!slot_) slot_ = memory_.take();
  return slot_.has_value();
}

int SequenceState::begin(const TextRoot& root, std::span<const TokenId> text) {
  position_ = 0;
  if (!claim()) return 0;
  position_ = kNowhere;  // if copying fails
  position_ = memory_.recall(root, text, *slot_);
  return position_;
}

/// A slot for a snapshot behind `position` tokens, or -1.
int SequenceState::take_save(int position) {
  const auto wanted = std::ranges::find(wanted_, position);
  if (wanted == wanted_.end()) return -1;
  wanted_.erase(wanted);
  saves_.reserve(saves_.size() + 1);
  const auto slot = memory_.take();
  if (slot) saves_.push_back({position, *slot});
  return slot.value_or(-1);
}

void SequenceState::lay_out(int length, int first, int count, std::span<const NodeId> parents,
                            bool kept, int flight, AttentionLayout& layout) {
  expects(slot_.has_value() && position_ == length, "a state behind the committed text");
  StateRun run{.from = length > 0 ? *slot_ : -1,
               .first = static_cast<std::int32_t>(layout.state_rows.size()),
               .count = count};
  for (int i = 0; i < count; ++i) {
    StateRow row{.row = first + i, .parent = i - 1};
    if (!parents.empty()) row.parent = parents[static_cast<std::size_t>(i)];
    if (kept) row.save = take_save(length + i + 1);
    layout.state_rows.push_back(row);
  }
  flight_ = flight;
  next_ = length;
  if (kept) {
    run.to = *slot_;
    next_ = length + count;
    position_ = kNowhere;
  }
  layout.runs.push_back(run);
}

void SequenceState::settle() { position_ = next_; }

void SequenceState::commit(const TextRoot& root, std::span<const TokenId> text,
                           std::span<const NodeId> path) {
  const auto length = static_cast<int>(text.size());
  const int before = length - static_cast<int>(path.size());
  if (position_ != length) {
    expects(slot_.has_value() && position_ == before, "a state behind the committed text");
    std::vector<StateRow> rows;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const auto index = static_cast<int>(i);
      rows.push_back({flight_ + path[i], index - 1, take_save(before + index + 1)});
    }
    position_ = kNowhere;
    memory_.replay({.from = before > 0 ? *slot_ : -1,
                    .to = *slot_,
                    .count = static_cast<std::int32_t>(rows.size())},
                   rows);
    position_ = length;
  }
  while (!saves_.empty()) {
    const Save save = saves_.back();
    memory_.remember(save.slot, root, text.first(static_cast<std::size_t>(save.position)));
    saves_.pop_back();
  }
}

void SequenceState::assume(int length) {
  expects(claim(), "a slot");
  position_ = length;
}

/// What the sequence leaves behind is the next one's beginning, often.
void SequenceState::end(const TextRoot& root, std::span<const TokenId> text) noexcept {
  if (!slot_ || text.empty() || position_ != static_cast<int>(text.size())) return;
  try {
    memory_.remember(*slot_, root, text);
    slot_.reset();
  } catch (const std::bad_alloc&) {
    return;  // the slot goes back without
  }
}

}  // namespace talon
