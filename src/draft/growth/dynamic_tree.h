#pragma once

#include <memory>

#include "draft/growth/tree_growth.h"

namespace talon {

/// Limits of a dynamic tree. The official code's depth is levels - 1 and its total_token is nodes
/// + 1.
struct DynamicTreeShape {
  int width = 10;     // nodes expanded per level
  int children = 10;  // candidates per expanded node
  int levels = 6;
  int nodes = 59;
};

/// EAGLE-2, arXiv:2406.16858: the expansion phase runs the best `width` candidates of each level by
/// cumulative log-probability, the reranking phase keeps the best `nodes` of all. With one child
/// per node the tree is a chain. `policy` is asked after each level. Beam nodes that the reranking
/// could no longer choose are not run: the tree is the same, only cheaper. Nodes that `start` has
/// besides its root, other drafters' branches, take part in the expansion with their own scores and
/// are kept in any case; `nodes` counts those that are added. `start` is borrowed for the call.
std::unique_ptr<TreeGrowth> grow_dynamic_tree(const DynamicTreeShape& shape,
                                              const LevelPolicy& policy, const DraftTree& start);

}  // namespace talon
