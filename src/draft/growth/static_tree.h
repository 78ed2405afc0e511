#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "draft/growth/tree_growth.h"

namespace talon {

/// A tree of fixed shape: which ranks of which nodes are drafted, whatever the probabilities
/// (EAGLE-1, Medusa).
struct StaticTree {
  struct Node {
    int parent = 0;  // index into nodes; -1: the root
    int rank = 0;    // 0: the parent's likeliest child
    int level = 0;   // 0: a child of the root
  };
  /// Level by level, each in order of its path of ranks; the root is not among them.
  std::vector<Node> nodes;

  int levels() const { return nodes.empty() ? 0 : nodes.back().level + 1; }
  /// Of children to ask for per row: one more than the largest rank.
  int children() const;
  /// Of nodes with children on the level where there are most.
  int widest_level() const;
  /// The part with at most `levels` levels and ranks below `children`.
  StaticTree cut(int levels, int children) const;
};

/// From paths of ranks ([[0], [1], [0, 0], ...]: the official `tree_choices`), in any order. Throws
/// Error, beginning with `doing`, for a path without its beginning, a path given twice, or one that
/// is empty, negative or absurdly long.
StaticTree parse_static_tree(const std::vector<std::vector<int>>& paths, std::string_view doing);

/// The tree of a JSON file that holds the list of paths. Throws Error naming the file.
StaticTree read_static_tree(const std::filesystem::path& file);

StaticTree chain_tree(int levels);

/// Grows `tree` and keeps the best `nodes` by cumulative log-probability. `policy` is asked
/// after each level.
std::unique_ptr<TreeGrowth> grow_static_tree(StaticTree tree, int nodes, const LevelPolicy& policy);

}  // namespace talon
