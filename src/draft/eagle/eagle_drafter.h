#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "draft/coupling/coupling.h"
#include "draft/drafter.h"
#include "draft/growth/dynamic_tree.h"
#include "draft/growth/static_tree.h"
#include "draft/head/head_weights.h"
#include "draft/head/pair_runner.h"

namespace talon {

struct EagleOptions {
  DynamicTreeShape dynamic;         // used unless there is a `fixed` tree
  std::optional<StaticTree> fixed;  // dynamic.levels and dynamic.nodes limit it, too
  /// That all sequences together may hold; 0: the context of the target.
  std::size_t cache_positions = 0;
  Coupling coupling;
  std::optional<PairWindow> window = {};  // none: the head's own
  /// Children of the fixed tree are drawn from the head's law, processed as the request's own,
  /// where the rule wants drafts that are independent of what it draws with. REQUIRES: `fixed`.
  bool draws = false;
};

/// Drafts with an EAGLE head (arXiv:2401.15077, 2406.16858, 2503.01840; docs/methods.md 2, 3). Each
/// committed token is paired with the target's feature of the position before it; these pairs alone
/// stay in the head's cache, which grows by them once a round. The rows of a growing tree, made
/// from the head's own features, live behind them for one round. A tree is cut by the job's plan as
/// well as by the options. head: may be that of several drafters.
std::unique_ptr<Drafter> make_eagle_drafter(std::shared_ptr<const HeadWeights> head,
                                            const Model& target, const EagleOptions& options);
inline std::unique_ptr<Drafter> make_eagle_drafter(HeadWeights head, const Model& target,
                                                   const EagleOptions& options) {
  return make_eagle_drafter(std::make_shared<const HeadWeights>(std::move(head)), target, options);
}

}  // namespace talon
