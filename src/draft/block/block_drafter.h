#pragma once

#include <memory>

#include "draft/block/block_weights.h"
#include "draft/coupling/coupling.h"
#include "draft/drafter.h"
#include "draft/head/head_weights.h"
#include "draft/head/pair_runner.h"

namespace talon {

struct BlockOptions {
  int children = 10;
  int levels = 0;                   // of a tree; at most the places of a pass
  int nodes = 63;                   // draft nodes, root excluded
  int places = 0;                   // guessed in a pass; 0: as many as the head was made for
  double stop = 0;                  // DSpark: below which confidence a branch ends
  PairWindow window;                // of layers that see all of the text otherwise
  std::size_t cache_positions = 0;  // of all sequences; 0: the context of the target
  Coupling coupling;
};

/// Drafts with a head that guesses several places in one pass (docs/methods.md 2.6): trees of the
/// likeliest products of its guesses, or with a bias by the token before, of branches. The head
/// takes in what was committed, as features of the target, once a round; nothing of a block is
/// kept.
/// head: may be that of several drafters.
std::unique_ptr<Drafter> make_block_drafter(std::shared_ptr<const BlockWeights> head,
                                            const Model& target, const BlockOptions& options);
/// Drafts as make_block_drafter() does, with a P-EAGLE head.
std::unique_ptr<Drafter> make_parallel_drafter(std::shared_ptr<const HeadWeights> head,
                                               const Model& target, const BlockOptions& options);

}  // namespace talon
