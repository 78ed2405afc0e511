#pragma once

#include <array>
#include <cstddef>

#include "tree/calibration.h"
#include "tree/pass_costs.h"

namespace talon {

/// What all sequences of an engine whose tokens are drawn alike (sample/temperature_class.h) learn
/// together about one drafter. Owned by the engine, fed by the policies' states, which it outlives.
struct DrafterEstimates {
  /// sampled: tokens are drawn at a temperature, and passes know the noise. REQUIRES: max_rows
  /// >= 1.
  explicit DrafterEstimates(int max_rows, const CostProfile& profile = {}, bool sampled = false)
      : passes(max_rows, profile, sampled) {}
  PassCosts passes;
  /// By how the text followed drafts beside the place (throughput/neighbour_lengths.h); the first
  /// where that is not asked, or not known.
  static constexpr std::size_t kNeighbourhoods = 4;
  std::array<Calibration, kNeighbourhoods> calibrations;
  static constexpr std::size_t kCoverages = 4;
  /// Tokens per round that passes of a draft head bring net of their time, by how much of the text
  /// cheaper drafters cover: quarters of the chance that one of them has the next token.
  std::array<double, kCoverages> pass_gain{};
  int sequences_begun = 0;  // of a crowd, some try for all
};

}  // namespace talon
