#pragma once

#include <string_view>
#include <vector>

#include "draft/registry.h"
#include "tree/draft_tree.h"

// For tests: what drafters that look texts up propose.

namespace talon::test {

/// Of a new drafter, behind `text`.
inline DraftTree proposal(std::string_view options, const std::vector<TokenId>& text,
                          int nodes = 64, int levels = 64) {
  auto drafter = make_drafter(options, {});
  auto state = drafter->start();
  drafter->observe(*state, {text, 0, {}, false});
  DraftTree tree(text.back());
  DraftJob job{state.get(), nullptr, {nodes, levels, nodes}, &tree};
  drafter->propose({&job, 1});
  check_invariants(tree);
  return tree;
}

/// From the root on the likeliest child of each node.
inline std::vector<TokenId> likeliest_path(const DraftTree& tree) {
  std::vector<TokenId> tokens;
  for (NodeId node = 0; node >= 0;) {
    NodeId best = -1;
    for (const NodeId child : tree.children(node)) {
      if (best < 0 || tree[child].log_p > tree[best].log_p) best = child;
    }
    if (best > 0) tokens.push_back(tree[best].token);
    node = best;
  }
  return tokens;
}

}  // namespace talon::test
