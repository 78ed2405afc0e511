#include "draft/coupling/noise_rows.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "sample/race.h"

namespace talon {
namespace {

bool same(const WordStream& a, const WordStream& b) {
  return std::ranges::equal(a.key, b.key) && std::ranges::equal(a.counter, b.counter);
}

/// A row, as a matrix of as many rows of one number.
View as_column(const View& row) { return {row.data, row.cols, 1, 1}; }

}  // namespace

NoiseRows::NoiseRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token,
                     int rows)
    : backend_(backend),
      slots_(static_cast<std::size_t>(rows)),
      rows_(backend.allocate(rows, vocabulary)),
      tokens_(backend.allocate_indices(static_cast<int>(target_token.size()))) {
  if (std::ranges::is_sorted(target_token)) {
    backend.upload(target_token, tokens_.first(tokens_.size()));
  } else {
    sort(target_token);
  }
}

/// Noise is made of 64 neighbouring tokens at once: in any other order much of it would be made
/// anew for each token.
void NoiseRows::sort(std::span<const TokenId> target_token) {
  const auto at = [](std::int32_t index) { return static_cast<std::size_t>(index); };
  std::vector<std::int32_t> order(target_token.size()), place(target_token.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return target_token[at(i)]; });
  std::vector<TokenId> ascending;
  for (const std::int32_t i : order) {
    place[at(i)] = static_cast<std::int32_t>(ascending.size());
    ascending.push_back(target_token[at(i)]);
  }
  backend_.upload(ascending, tokens_.first(tokens_.size()));
  places_ = backend_.allocate_indices(static_cast<int>(place.size()));
  backend_.upload(place, places_.first(places_.size()));
  ascending_ = backend_.allocate(1, rows_.view().cols);
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
  const View to = rows_.view().row_range(row, 1);
  const bool is_sorted = places_.size() == 0;
  backend_.gumbel({&noise, 1}, tokens_.first(tokens_.size()), is_sorted ? to : ascending_.view());
  if (is_sorted) return;
  backend_.gather_rows(as_column(ascending_.view()), places_.first(places_.size()), as_column(to));
}

}  // namespace talon
