#include "draft/coupling/shift_rows.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

View ShiftRows::row_of(const DraftPlace& place, float scale) {
  expects(place.changes != nullptr, "a place whose logits a request changes");
  if (!rows_) rows_ = backend_.allocate(static_cast<int>(kSlots), vocabulary_);
  const bool is_early = place.is_early();
  const auto known = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return slot.used > 0 && slot.is_early == is_early && slot.scale == scale &&
           slot.changes == *place.changes;
  });
  const auto slot =
      known != slots_.end() ? known : std::ranges::min_element(slots_, {}, &Slot::used);
  const View row = rows_.view().row_range(static_cast<int>(slot - slots_.begin()), 1);
  if (known == slots_.end()) {
    slot->used = 0;  // nobody's if filling it fails
    slot->changes = *place.changes;
    slot->is_early = is_early;
    slot->scale = scale;
    fill(*slot, row);
  }
  slot->used = ++asked_;
  return row;
}

void ShiftRows::fill(const Slot& slot, const View& row) {
  values_.assign(static_cast<std::size_t>(vocabulary_), 0.0F);
  if (target_token_.empty()) {
    for (const LogitChanges::Change& change : slot.changes.all()) {
      if (change.token >= vocabulary_) break;
      values_[static_cast<std::size_t>(change.token)] =
          slot.scale * (slot.is_early ? change.early : change.shift);
    }
  } else {
    for (std::size_t i = 0; i < target_token_.size(); ++i)
      values_[i] = slot.scale * slot.changes.shift_of(target_token_[i], slot.is_early);
  }
  backend_.upload(values_, row);
}

}  // namespace talon
