#include "draft/coupling/noise_rows.h"

#include <algorithm>

#include "core/error.h"
#include "sample/race.h"

namespace talon {
namespace {

bool same(const WordStream& a, const WordStream& b) {
  return std::ranges::equal(a.key, b.key) && std::ranges::equal(a.counter, b.counter);
}

}  // namespace

NoiseRows::NoiseRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token,
                     int rows)
    : backend_(backend),
      slots_(static_cast<std::size_t>(rows)),
      rows_(backend.allocate(rows, vocabulary)),
      tokens_(backend.allocate_indices(static_cast<int>(target_token.size()))) {
  backend.upload(target_token, tokens_.first(tokens_.size()));
}

std::int32_t NoiseRows::row_of(const DraftPlace& place, const Coupling& coupling) {
  expects(place.races(), "a place whose draw races");
  const WordStream words = place.random->words(place.position, RandomUse::race_high);
  const auto scale = static_cast<float>(place.temperature / coupling.beta);
  const auto known = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return slot.used > 0 && slot.scale == scale && same(slot.words, words);
  });
  const auto slot =
      known != slots_.end() ? known : std::ranges::min_element(slots_, {}, &Slot::used);
  const auto row = static_cast<std::int32_t>(slot - slots_.begin());
  if (known == slots_.end()) {
    *slot = {words, scale, 0};  // nobody's if filling it fails
    fill(row);
  }
  slot->used = ++asked_;
  return row;
}

void NoiseRows::fill(int row) {
  const Slot& slot = slots_[static_cast<std::size_t>(row)];
  const GumbelNoise noise{slot.words, slot.scale};
  backend_.gumbel({&noise, 1}, tokens_.first(tokens_.size()), rows_.view().row_range(row, 1));
}

}  // namespace talon
