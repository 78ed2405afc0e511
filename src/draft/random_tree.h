#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "draft/drafter.h"

namespace talon {

struct RandomTreeOptions {
  int nodes = 64;      // most draft nodes
  int levels = 16;     // most levels
  double hit = 0.5;    // chance that a tree holds the next right tokens
  double probes = 0;   // chance that a node is a probe
  int vocabulary = 0;  // wrong tokens are drawn from it
  std::uint32_t seed = 1;
};

/// A drafter for tests and simulations that knows the answers: proposes trees of random size,
/// shape, tokens and confidence, in which, with a given chance, a random number of the next right
/// tokens hides. `texts` are whole sequences, prompt and answer; a sequence that continues none of
/// them gets wrong tokens only.
std::unique_ptr<Drafter> make_random_tree_drafter(const RandomTreeOptions& options,
                                                  std::vector<std::vector<TokenId>> texts);

}  // namespace talon
