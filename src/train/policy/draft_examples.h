#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/types.h"
#include "tree/draft_tree.h"
#include "tree/policies/radar_network.h"

namespace talon {

/// A draft that ends after some level: its `nodes` best nodes of those levels went to the check.
struct StopOutcome {
  int accepted = 0;  // drafted tokens that the target's own continuation confirms
  int nodes = 0;     // checked beside the root
};

using BeamState = std::array<float, RadarNetwork::kState>;

/// What drafting at one place of a text showed.
struct DraftExample {
  int text = 0;                    // which one, for splits that keep texts whole
  double temperature = 0;          // at which the text is drawn
  std::vector<float> feature;      // what the policy ada_eagle sees; empty unless wanted
  std::vector<BeamState> states;   // of each level after which the drafter asked to go on
  std::vector<StopOutcome> stops;  // of drafts of 1, 2, ... levels

  /// Of the whole draft.
  int accepted() const { return stops.empty() ? 0 : stops.back().accepted; }
};

/// The outcomes of `tree` if it had ended after each of its levels. following: the text behind the
/// root.
std::vector<StopOutcome> stop_outcomes(const DraftTree& tree, std::span<const TokenId> following,
                                       int most_nodes);

/// Examples of the texts that are learned from, and of those that are measured on.
struct ExampleSplit {
  std::vector<DraftExample> train, held_out;
};
/// Whole texts, evenly spread over those of each temperature: about `share` of them are held out,
/// at least one. Throws Error when either part gets no example.
ExampleSplit split_examples(std::vector<DraftExample> examples, double share);

}  // namespace talon
