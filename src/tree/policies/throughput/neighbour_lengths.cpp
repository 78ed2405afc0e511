#include "tree/policies/throughput/neighbour_lengths.h"

#include "tree/drafter_estimates.h"

namespace talon {

std::size_t NeighbourLengths::neighbourhood(std::size_t place) const {
  int sum = 0, known = 0;
  const auto count = [&](int length) {
    if (length == kUnknown) return;
    sum += length;
    ++known;
  };
  const bool begins_row = row_ > 0 && place % row_ == 0;
  if (place > 0 && !begins_row) count(length_at(place - 1));
  if (row_ > 0 && place >= row_) count(length_at(place - row_));
  static_assert(DrafterEstimates::kNeighbourhoods == 4);
  if (known == 0) return 0;
  if (sum < known) return 1;       // less than one level
  return sum < 3 * known ? 2 : 3;  // less than three
}

void NeighbourLengths::learn(std::size_t place, std::size_t tokens, int length) {
  lengths_.resize(place, kUnknown);
  lengths_.insert(lengths_.end(), tokens, length);
}

}  // namespace talon
