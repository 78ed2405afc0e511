#include "tree/draft_tree.h"

#include <cmath>
#include <numeric>
#include <set>

#include "core/error.h"

namespace talon {

void DraftTree::reset(TokenId root) {
  nodes.assign(1, {.token = root});
  drawn.clear();
}

int DraftTree::levels() const {
  int deepest = 0;
  for (const Node& node : nodes) deepest = std::max(deepest, node.depth);
  return deepest;
}

std::vector<TokenId> DraftTree::tokens() const {
  std::vector<TokenId> result;
  for (const Node& node : nodes) result.push_back(node.token);
  return result;
}

std::vector<NodeId> DraftTree::parents() const {
  std::vector<NodeId> result;
  for (const Node& node : nodes) result.push_back(node.parent);
  return result;
}

std::vector<float> DraftTree::log_ps() const {
  std::vector<float> result;
  for (const Node& node : nodes) result.push_back(node.log_p);
  return result;
}

NodeId DraftTree::add(NodeId parent_node, TokenId child_token, float path_log_p,
                      std::uint32_t source) {
  return add_node(parent_node, {.token = child_token, .log_p = path_log_p, .sources = source});
}

NodeId DraftTree::add_probe(NodeId parent_node, TokenId child_token, float path_log_p,
                            std::uint32_t source) {
  return add_node(
      parent_node,
      {.token = child_token, .log_p = path_log_p, .sources = source, .kind = NodeKind::probe});
}

NodeId DraftTree::add_node(NodeId parent_node, Node child) {
  expects(parent_node >= 0 && parent_node < size(), "a parent in the tree");
  const Node& parent = (*this)[parent_node];
  expects(child.kind == NodeKind::probe || parent.kind == NodeKind::candidate,
          "a candidate below a candidate");
  if (!(child.log_p >= kLeastLogP)) child.log_p = kLeastLogP;
  child.log_p = std::min(child.log_p, parent.log_p);
  child.parent = parent_node;
  for (const NodeId id : children(parent_node)) {
    Node& known = (*this)[id];
    if (known.token != child.token) continue;
    known.log_p = std::max(known.log_p, child.log_p);
    known.sources |= child.sources;
    if (child.kind == NodeKind::candidate) known.kind = NodeKind::candidate;
    return id;
  }
  expects(drawn_from(parent_node) == nullptr, "no other children beside drawn ones");
  return append(child);
}

NodeId DraftTree::append(Node child) {
  child.depth = depth(child.parent) + 1;
  nodes.push_back(child);
  return size() - 1;
}

NodeId DraftTree::add_drawn(NodeId parent_node, Law<double> law, std::span<const TokenId> tokens) {
  expects(parent_node >= 0 && parent_node < size(), "a parent in the tree");
  expects(children(parent_node).empty(), "a node without children");
  const NodeId first = size();
  const float parent_log_p = (*this)[parent_node].log_p;
  for (const TokenId child_token : tokens) {
    const auto step = std::min(0.0f, static_cast<float>(std::log(law.of(child_token))));
    append(
        {.token = child_token, .parent = parent_node, .log_p = parent_log_p + step, .sources = 1});
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
  for (const NodeId id : children(node)) {
    const Node& found = (*this)[id];
    if (found.token == child_token && found.kind == NodeKind::candidate) return id;
  }
  return -1;
}

double DraftTree::step_chance(NodeId node) const {
  const Node& self = (*this)[node];
  return std::exp(static_cast<double>(self.log_p) -
                  static_cast<double>((*this)[self.parent].log_p));
}

std::vector<NodeId> DraftTree::path(NodeId node) const {
  std::vector<NodeId> ids;
  for (; node >= 0; node = (*this)[node].parent) ids.push_back(node);
  std::reverse(ids.begin(), ids.end());
  return ids;
}

std::vector<NodeId> DraftTree::ranked() const {
  std::vector<NodeId> ids(nodes.size() - 1);
  std::iota(ids.begin(), ids.end(), 1);
  rank(ids, [&](NodeId node) { return (*this)[node].log_p; });
  return ids;
}

void DraftTree::prune(int count) {
  expects(count >= 0, "a count of nodes that is not negative");
  if (count >= draft_nodes()) return;
  if (!drawn.empty()) return truncate(count);
  std::vector<NodeId> kept = ranked();
  kept.resize(static_cast<std::size_t>(count));
  std::sort(kept.begin(), kept.end());
  keep(kept);
}

void DraftTree::truncate(int count) {
  expects(count >= 0, "a count of nodes that is not negative");
  if (count >= draft_nodes()) return;
  nodes.resize(static_cast<std::size_t>(count) + 1);
  std::erase_if(drawn, [&](const DrawnChildren& children) { return children.parent > count; });
}

void DraftTree::keep(std::span<const NodeId> kept) {
  for (const DrawnChildren& listed : drawn) {
    for (const NodeId node : children(listed.parent)) {
      expects(std::binary_search(kept.begin(), kept.end(), node), "a kept drawn node");
    }
  }
  const auto new_id = [&](NodeId node) {
    if (node == 0) return 0;
    const auto found = std::lower_bound(kept.begin(), kept.end(), node);
    expects(found != kept.end() && *found == node, "a kept parent");
    return static_cast<NodeId>(found - kept.begin()) + 1;
  };
  NodeId next = 1;
  for (const NodeId node : kept) {
    expects(node >= next && node < size(), "ascending ids of draft nodes");
    Node moved = (*this)[node];
    moved.parent = new_id(moved.parent);
    (*this)[next++] = moved;
  }
  for (DrawnChildren& listed : drawn) listed.parent = new_id(listed.parent);
  nodes.resize(static_cast<std::size_t>(next));
}

void check_invariants(const DraftTree& tree) {
  expects(tree.size() >= 1, "a tree has a root");
  const DraftTree::Node& root = tree[0];
  expects(root.parent == -1 && root.log_p == 0.0f && root.depth == 0,
          "a root has no parent, log_p 0 and depth 0");
  expects(root.kind == NodeKind::candidate, "a root is text");
  std::set<std::pair<NodeId, TokenId>> children;
  for (NodeId id = 1; id < tree.size(); ++id) {
    const DraftTree::Node& node = tree[id];
    expects(node.parent >= 0 && node.parent < id, "a parent precedes its children");
    const DraftTree::Node& parent = tree[node.parent];
    expects(node.depth == parent.depth + 1, "a node is one level below its parent");
    expects(node.log_p <= parent.log_p, "a node is at most as likely as its parent");
    expects(node.log_p >= DraftTree::kLeastLogP, "a node has a log_p that is a number");
    expects(node.kind == NodeKind::probe || parent.kind == NodeKind::candidate,
            "below a probe there are probes only");
    expects(children.emplace(node.parent, node.token).second,
            "children of one node have distinct tokens");
    const Law<double>* law = tree.drawn_from(node.parent);
    expects(!law || law->of(node.token) > 0, "a drawn child can be drawn");
  }
}

}  // namespace talon
