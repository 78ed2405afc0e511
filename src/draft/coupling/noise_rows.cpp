#include "draft/coupling/noise_rows.h"

#include <algorithm>

#include "core/error.h"
#include "sample/race_kernels.h"

namespace talon {
namespace {

bool same(const WordStream& a, const WordStream& b) {
  return std::ranges::equal(a.key, b.key) && std::ranges::equal(a.counter, b.counter);
}

}  // namespace

NoiseRows::NoiseRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token,
                     int rows)
    : backend_(backend),
      vocabulary_(vocabulary),
      target_token_(target_token),
      slots_(static_cast<std::size_t>(rows)) {
  const TokenId last =
      target_token.empty() ? vocabulary - 1 : *std::ranges::max_element(target_token);
  groups_ = static_cast<std::size_t>(last) / kWordGroup + 1;
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
  if (!rows_) {
    words_.resize(groups_ * kWordGroup);
    of_list_.resize(target_token_.size());
    noise_.resize(static_cast<std::size_t>(vocabulary_));
    rows_ = backend_.allocate(static_cast<int>(slots_.size()), vocabulary_);
  }
  const Slot& slot = slots_[static_cast<std::size_t>(row)];
  const RaceKernels& kernels = best_race_kernels();
  kernels.words(slot.words, static_cast<int>(groups_), words_.data());
  for (std::size_t i = 0; i < of_list_.size(); ++i) {
    of_list_[i] = words_[static_cast<std::size_t>(target_token_[i])];
  }
  const std::uint32_t* words = of_list_.empty() ? words_.data() : of_list_.data();
  kernels.gumbel(words, vocabulary_, slot.scale, noise_.data());
  backend_.upload(noise_, rows_.view().row_range(row, 1));
}

}  // namespace talon
