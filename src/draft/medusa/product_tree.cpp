#include "draft/medusa/product_tree.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace talon {
namespace {

/// The beginning of a path: a guess of head `level` below a node of the tree.
struct Product {
  NodeId parent;
  std::size_t level;
  std::size_t rank;
  float log_p;

  /// Of equals the shallower comes first, then the one with the earlier parent.
  bool operator<(const Product& other) const {
    if (log_p != other.log_p) return log_p < other.log_p;
    if (level != other.level) return level > other.level;
    return parent > other.parent;
  }
};

/// Guesses that are not finite are left out.
void add_row(const RowChildren& children, int row, ProductGuesses& guesses) {
  auto& list = guesses.heads.emplace_back();
  const auto first = static_cast<std::size_t>(row) * static_cast<std::size_t>(children.count);
  for (std::size_t i = first; i < first + static_cast<std::size_t>(children.count); ++i) {
    if (!std::isfinite(children.log_p[i])) break;
    list.push_back({children.token[i], std::min(children.log_p[i], 0.0F)});
  }
}

}  // namespace

ProductGuesses ProductGuesses::of(std::span<const RowChildren> heads, int row) {
  ProductGuesses guesses;
  for (const RowChildren& children : heads) add_row(children, row, guesses);
  return guesses;
}

ProductGuesses ProductGuesses::of_rows(const RowChildren& places, int first, int count) {
  ProductGuesses guesses;
  for (int row = first; row < first + count; ++row) add_row(places, row, guesses);
  return guesses;
}

void grow_product_tree(const ProductGuesses& guesses, int levels, int nodes, DraftTree& tree,
                       std::uint32_t source) {
  const std::size_t deepest = std::min(guesses.heads.size(), static_cast<std::size_t>(levels));
  std::priority_queue<Product> open;
  const auto offer = [&](NodeId parent, std::size_t level, std::size_t rank) {
    if (level >= deepest || rank >= guesses.heads[level].size()) return;
    const float above = tree[parent].log_p;
    open.push({parent, level, rank, above + guesses.heads[level][rank].log_p});
  };
  const int before = tree.size();
  for (NodeId node = 0; node < before; ++node) {
    if (tree[node].kind != NodeKind::probe) {
      offer(node, static_cast<std::size_t>(tree.depth(node)), 0);
    }
  }
  while (tree.size() - before < nodes && !open.empty()) {
    const Product best = open.top();
    open.pop();
    const TokenId token = guesses.heads[best.level][best.rank].token;
    const NodeId next = tree.size();
    const NodeId node = tree.add(best.parent, token, best.log_p, source);
    offer(best.parent, best.level, best.rank + 1);
    if (node == next) offer(node, best.level + 1, 0);  // else it was offered with the tree
  }
}

void place_product_tree(const ProductGuesses& guesses, const StaticTree& shape, int nodes,
                        DraftTree& tree) {
  std::vector<NodeId> node_of;
  for (const StaticTree::Node& node : shape.nodes) {
    const NodeId parent = node.parent < 0 ? 0 : node_of[static_cast<std::size_t>(node.parent)];
    const auto level = static_cast<std::size_t>(node.level);
    const auto rank = static_cast<std::size_t>(node.rank);
    const bool guessed = level < guesses.heads.size() && rank < guesses.heads[level].size();
    if (parent < 0 || !guessed) {
      node_of.push_back(-1);
      continue;
    }
    const auto& guess = guesses.heads[level][rank];
    node_of.push_back(tree.add(parent, guess.token, tree[parent].log_p + guess.log_p));
  }
  tree.prune(nodes);
}

}  // namespace talon
