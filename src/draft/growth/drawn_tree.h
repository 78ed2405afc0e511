#pragma once

#include <functional>
#include <memory>

#include "draft/growth/static_tree.h"

namespace talon {

/// As grow_static_tree(), but the children of a node are drawn without replacement from
/// RowChildren::laws, as many as the shape has, in the order of their ranks (EAGLE-1, LANTERN:
/// arXiv:2410.03355). The first `nodes` of the shape are drafted, whatever is drawn. uniform(i): a
/// number in [0, 1) for the i-th draw, independent of all others. finish() wants a tree that holds
/// its root only.
std::unique_ptr<TreeGrowth> grow_drawn_tree(StaticTree tree, int nodes, const LevelPolicy& policy,
                                            std::function<double(int)> uniform);

}  // namespace talon
