#include "tree/draft_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"

namespace talon {

void DraftTree::reset(TokenId root) {
  token.assign(1, root);
  parent.assign(1, -1);
  log_p.assign(1, 0.0f);
  sources.assign(1, 0);
  added_by = 1;
  drawn.clear();
}

NodeId DraftTree::add(NodeId parent_node, TokenId child_token, float path_log_p) {
  expects(parent_node >= 0 && parent_node < size(), "a parent in the tree");
  path_log_p = std::min(path_log_p, log_p[static_cast<std::size_t>(parent_node)]);
  if (const NodeId known = child(parent_node, child_token); known >= 0) {
    float& known_log_p = log_p[static_cast<std::size_t>(known)];
    known_log_p = std::max(known_log_p, path_log_p);
    sources[static_cast<std::size_t>(known)] |= added_by;
    return known;
  }
  expects(drawn_from(parent_node) == nullptr, "no other children beside drawn ones");
  return append(parent_node, child_token, path_log_p);
}

NodeId DraftTree::append(NodeId parent_node, TokenId child_token, float path_log_p) {
  token.push_back(child_token);
  parent.push_back(parent_node);
  log_p.push_back(path_log_p);
  sources.push_back(added_by);
  return size() - 1;
}

NodeId DraftTree::add_drawn(NodeId parent_node, Law<double> law, std::span<const TokenId> tokens) {
  expects(parent_node >= 0 && parent_node < size(), "a parent in the tree");
  expects(std::find(parent.begin() + 1, parent.end(), parent_node) == parent.end(),
          "a node without children");
  const NodeId first = size();
  const float parent_log_p = log_p[static_cast<std::size_t>(parent_node)];
  for (const TokenId child_token : tokens) {
    const auto step = std::min(0.0f, static_cast<float>(std::log(law.of(child_token))));
    append(parent_node, child_token, parent_log_p + step);
  }
  const auto place = std::find_if(drawn.begin(), drawn.end(), [&](const DrawnChildren& other) {
    return other.parent > parent_node;
  });
  drawn.insert(place, {parent_node, std::move(law)});
  return first;
}

const Law<double>* DraftTree::drawn_from(NodeId node) const {
  for (const DrawnChildren& children : drawn) {
    if (children.parent == node) return &children.law;
  }
  return nullptr;
}

NodeId DraftTree::child(NodeId node, TokenId child_token) const {
  for (NodeId id = node + 1; id < size(); ++id) {
    const auto i = static_cast<std::size_t>(id);
    if (parent[i] == node && token[i] == child_token) return id;
  }
  return -1;
}

int DraftTree::depth(NodeId node) const {
  int levels = 0;
  while ((node = parent[static_cast<std::size_t>(node)]) >= 0) ++levels;
  return levels;
}

std::vector<NodeId> DraftTree::path(NodeId node) const {
  std::vector<NodeId> nodes;
  for (; node >= 0; node = parent[static_cast<std::size_t>(node)]) nodes.push_back(node);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

void DraftTree::prune(int count) {
  expects(count >= 0, "a count of nodes that is not negative");
  if (count >= draft_nodes()) return;
  if (!drawn.empty()) return truncate(count);
  std::vector<int> depths(static_cast<std::size_t>(size()));
  for (std::size_t i = 1; i < depths.size(); ++i) {
    depths[i] = depths[static_cast<std::size_t>(parent[i])] + 1;
  }
  std::vector<NodeId> ranked(static_cast<std::size_t>(draft_nodes()));
  std::iota(ranked.begin(), ranked.end(), 1);
  std::sort(ranked.begin(), ranked.end(), [&](NodeId left, NodeId right) {
    const auto a = static_cast<std::size_t>(left), b = static_cast<std::size_t>(right);
    if (log_p[a] != log_p[b]) return log_p[a] > log_p[b];
    return depths[a] != depths[b] ? depths[a] < depths[b] : a < b;
  });
  ranked.resize(static_cast<std::size_t>(count));
  std::sort(ranked.begin(), ranked.end());
  keep(ranked);
}

void DraftTree::truncate(int count) {
  expects(count >= 0, "a count of nodes that is not negative");
  if (count >= draft_nodes()) return;
  const auto left = static_cast<std::size_t>(count) + 1;
  token.resize(left);
  parent.resize(left);
  log_p.resize(left);
  sources.resize(left);
  std::erase_if(drawn, [&](const DrawnChildren& children) { return children.parent > count; });
}

void DraftTree::keep(std::span<const NodeId> nodes) {
  for (const DrawnChildren& children : drawn) {
    for (NodeId node = children.parent + 1; node < size(); ++node) {
      const bool is_drawn = parent[static_cast<std::size_t>(node)] == children.parent;
      expects(!is_drawn || std::binary_search(nodes.begin(), nodes.end(), node),
              "a kept drawn node");
    }
  }
  const auto new_id = [&](NodeId node) {
    if (node == 0) return 0;
    const auto kept = std::lower_bound(nodes.begin(), nodes.end(), node);
    expects(kept != nodes.end() && *kept == node, "a kept parent");
    return static_cast<NodeId>(kept - nodes.begin()) + 1;
  };
  NodeId next = 1;
  for (const NodeId node : nodes) {
    const auto old = static_cast<std::size_t>(node), to = static_cast<std::size_t>(next);
    expects(node >= next && node < size(), "ascending ids of draft nodes");
    token[to] = token[old];
    parent[to] = new_id(parent[old]);
    log_p[to] = log_p[old];
    sources[to] = sources[old];
    ++next;
  }
  for (DrawnChildren& children : drawn) children.parent = new_id(children.parent);
  token.resize(static_cast<std::size_t>(next));
  parent.resize(static_cast<std::size_t>(next));
  log_p.resize(static_cast<std::size_t>(next));
  sources.resize(static_cast<std::size_t>(next));
}

void check_invariants(const DraftTree& tree) {
  expects(tree.size() >= 1, "a tree has a root");
  expects(tree.parent.size() == tree.token.size() && tree.log_p.size() == tree.token.size() &&
              tree.sources.size() == tree.token.size(),
          "a tree has one parent, one log_p and one set of sources per token");
  expects(tree.parent[0] == -1 && tree.log_p[0] == 0.0f, "a root has no parent and log_p 0");
  std::set<std::pair<NodeId, TokenId>> children;
  for (std::size_t i = 1; i < tree.token.size(); ++i) {
    const NodeId parent = tree.parent[i];
    expects(parent >= 0 && parent < static_cast<NodeId>(i), "a parent precedes its children");
    expects(tree.log_p[i] <= tree.log_p[static_cast<std::size_t>(parent)],
            "a node is at most as likely as its parent");
    expects(children.emplace(parent, tree.token[i]).second,
            "children of one node have distinct tokens");
    const Law<double>* law = tree.drawn_from(parent);
    expects(!law || law->of(tree.token[i]) > 0, "a drawn child can be drawn");
  }
}

std::vector<bool> tree_mask(const DraftTree& tree) {
  const auto size = static_cast<std::size_t>(tree.size());
  std::vector<bool> mask(size * size);
  for (std::size_t row = 0; row < size; ++row) {
    for (NodeId node = static_cast<NodeId>(row); node >= 0;
         node = tree.parent[static_cast<std::size_t>(node)]) {
      mask[row * size + static_cast<std::size_t>(node)] = true;
    }
  }
  return mask;
}

}  // namespace talon
