#include "draft/growth/named_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace talon {
namespace {

/// How many children each node has, level by level and in order; those at a level's end that have
/// none are left out. Children have ranks 0, 1, ...
struct NamedTree {
  std::string_view name;
  std::vector<std::vector<int>> children;
};

const std::vector<NamedTree>& named_trees() {
  static const std::vector<NamedTree> trees = {
      {"mc_sim_7b_63", {{4}, {3, 2, 2, 1}, {3, 2, 2, 1}, {3}, {2}}},
      {"mc_sim_7b_63_balanced", {{3}, {3, 3, 2}, {3, 2, 0, 2, 2}, {3}, {2}}},
      {"naive_extend_57",
       {{5},
        {4, 3, 3, 2, 1},
        {4, 3, 3, 2, 2, 1, 0, 1},
        {4, 3, 2, 1, 2, 1, 0, 1},
        {3, 2, 0, 0, 2, 1, 0, 1}}},
      {"medusa_2_7b_63",
       {{10},
        {10, 5, 2, 2, 1, 1, 1, 1},
        {9, 4, 2, 1, 1, 1, 0, 0, 0, 0, 3, 1, 0, 0, 0, 1},
        {4, 1, 1, 0, 0, 0, 0, 0, 0, 1}}},
      {"reverse_balanced_25", {{3}, {2, 1, 1}, {3, 2, 1}, {3, 2}, {4, 3}}},
      {"chain", {{1}, {1}, {1}, {1}, {1}}},
  };
  return trees;
}

const NamedTree* find(std::string_view name) {
  const auto found = std::ranges::find(named_trees(), name, &NamedTree::name);
  return found == named_trees().end() ? nullptr : &*found;
}

StaticTree tree_with(const std::vector<std::vector<int>>& children) {
  StaticTree tree;
  int parent = -1;  // the first node of the level above
  for (int level = 0; level < static_cast<int>(children.size()); ++level) {
    const int first = static_cast<int>(tree.nodes.size());
    for (const int count : children[static_cast<std::size_t>(level)]) {
      for (int rank = 0; rank < count; ++rank) tree.nodes.push_back({parent, rank, level});
      ++parent;
    }
    parent = first;
  }
  return tree;
}

}  // namespace

std::string static_tree_names() {
  std::string names;
  for (const NamedTree& tree : named_trees()) {
    const bool last = &tree == &named_trees().back();
    names += fmt::format("{}{}", names.empty() ? "" : last ? " or " : ", ", tree.name);
  }
  return names;
}

bool is_tree_name(std::string_view text) { return find(text) != nullptr; }

StaticTree named_tree(std::string_view name) {
  const NamedTree* tree = find(name);
  expects(tree != nullptr, "the name of a tree");
  return tree_with(tree->children);
}

StaticTree tree_of(const std::string& name_or_file) {
  if (is_tree_name(name_or_file)) return named_tree(name_or_file);
  return read_static_tree(name_or_file);
}

}  // namespace talon
