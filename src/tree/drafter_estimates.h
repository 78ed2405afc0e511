#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tree/calibration.h"
#include "tree/pass_costs.h"

namespace talon {

/// What is learned of the passes of a drafter's network.
struct NetworkEstimates {
  NetworkEstimates(int max_rows, const CostProfile& profile, bool sampled)
      : source(profile.source), passes(max_rows, profile, sampled) {}
  std::uint32_t source;  // CostProfile::source
  PassCosts passes;
  static constexpr std::size_t kCoverages = 4;
  /// Tokens per round that they bring net of their time, by how much of the text cheaper drafters
  /// cover: quarters of the chance that one of them has the next token.
  std::array<double, kCoverages> pass_gain{};
};

/// What all sequences of an engine whose tokens are drawn alike (sample/temperature_class.h) learn
/// together about one drafter. Owned by the engine, fed by the policies' states, which it outlives.
struct DrafterEstimates : NetworkEstimates {
  /// sampled: tokens are drawn at a temperature, and passes know the noise. REQUIRES: max_rows
  /// >= 1.
  explicit DrafterEstimates(int max_rows, const CostProfile& profile = {}, bool sampled = false)
      : NetworkEstimates(max_rows, profile, sampled) {
    for (const CostProfile& network : profile.networks)
      networks.emplace_back(max_rows, network, sampled);
  }
  /// Of the network with that source, if the drafter joins several; else of all its passes.
  NetworkEstimates& of(std::uint32_t source_of_network) {
    for (NetworkEstimates& network : networks) {
      if (network.source == source_of_network) return network;
    }
    return *this;
  }
  std::vector<NetworkEstimates> networks;  // of CostProfile::networks
  /// By how the text followed drafts beside the place (throughput/neighbour_lengths.h); the first
  /// where that is not asked, or not known.
  static constexpr std::size_t kNeighbourhoods = 4;
  std::array<Calibration, kNeighbourhoods> calibrations;
  int sequences_begun = 0;  // of a crowd, some try for all
};

}  // namespace talon
