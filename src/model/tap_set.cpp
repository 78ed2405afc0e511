#include "model/tap_set.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

/// The first place in `taps` from which on it agrees with `wanted` as far as both go.
std::size_t first_fit(std::span<const FeatureTap> taps, std::span<const FeatureTap> wanted) {
  for (std::size_t first = 0; first < taps.size(); ++first) {
    const auto there = taps.subspan(first);
    const std::size_t both = std::min(there.size(), wanted.size());
    if (std::equal(there.begin(), there.begin() + static_cast<std::ptrdiff_t>(both),
                   wanted.begin())) {
      return first;
    }
  }
  return taps.size();
}

}  // namespace

TapSet::Reader TapSet::add(std::span<const FeatureTap> wanted) {
  const std::size_t first = wanted.empty() ? 0 : first_fit(taps_, wanted);
  const std::size_t known = std::min(taps_.size() - first, wanted.size());
  const auto missing = wanted.subspan(known);
  const Place place{static_cast<int>(first), static_cast<int>(wanted.size())};
  taps_.insert(taps_.end(), missing.begin(), missing.end());
  const auto same = std::find(readers_.begin(), readers_.end(), place);
  if (same != readers_.end()) return static_cast<Reader>(same - readers_.begin());
  readers_.push_back(place);
  return readers_.size() - 1;
}

View TapSet::columns(Reader reader, const View& features) const {
  expects(reader < readers_.size(), "a reader that was added");
  const Place& place = readers_[reader];
  if (place.count == 0 || !features) return {};
  const int width = features.cols / static_cast<int>(taps_.size());
  return features.col_range(place.first * width, place.count * width);
}

}  // namespace talon
