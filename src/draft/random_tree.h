#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/error.h"
#include "draft/drafter.h"

namespace talon {

struct RandomTreeOptions {
  int nodes = 64;      // most draft nodes
  int levels = 16;     // most levels
  double hit = 0.5;    // chance that a tree holds the next right tokens
  double probes = 0;   // chance that a node is a probe
  int vocabulary = 0;  // wrong tokens are drawn from it
  std::uint32_t seed = 1;
};

/// A drafter for tests that knows the answers: proposes trees of random size, shape, tokens and
/// confidence, in which, with a given chance, a random number of the next right tokens hides.
/// `texts` are whole sequences, prompt and answer; a sequence that continues none of them gets
/// wrong tokens only.
class RandomTreeDrafter : public Drafter {
 public:
  RandomTreeDrafter(const RandomTreeOptions& options, std::vector<std::vector<TokenId>> texts)
      : options_(options), texts_(std::move(texts)) {
    expects(options.vocabulary > 1, "wrong tokens to choose from");
  }

  std::unique_ptr<DraftState> start() override { return std::make_unique<State>(); }

  void observe(DraftState& state, const CommittedTokens& committed) override {
    auto& tokens = static_cast<State&>(state).tokens;
    expects(static_cast<int>(tokens.size()) == committed.first_position,
            "tokens are observed in order");
    tokens.insert(tokens.end(), committed.tokens.begin(), committed.tokens.end());
  }

  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) grow(static_cast<const State&>(*job.state).tokens, job);
  }

 private:
  struct State : DraftState {
    std::vector<TokenId> tokens;
  };

  /// std::uniform_int_distribution differs between standard libraries; this does not.
  static int below(std::mt19937& random, int limit) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(limit));
  }

  void grow(const std::vector<TokenId>& tokens, const DraftJob& job) const {
    const int most_nodes = std::min(options_.nodes, job.plan.nodes);
    const int most_levels = std::min(options_.levels, job.plan.levels);
    if (most_nodes < 1 || most_levels < 1) return;
    std::mt19937 random(options_.seed + 7919u * static_cast<std::uint32_t>(tokens.size()));
    std::span<const TokenId> right;
    if (below(random, 1000) < options_.hit * 1000) right = continuation(tokens);
    right = right.first(std::min<std::size_t>(
        right.size(), static_cast<std::size_t>(1 + below(random, most_levels))));

    DraftTree& tree = *job.tree;
    NodeId on_path = 0;
    const int nodes = 1 + below(random, most_nodes);
    // A random node may be there already and add none: the attempts are bounded, not only the
    // nodes.
    for (int attempt = 0; attempt < 4 * nodes && tree.draft_nodes() < nodes; ++attempt) {
      if (!right.empty() && below(random, 2) == 0) {
        on_path = add(tree, on_path, right.front(), random);
        right = right.subspan(1);
        continue;
      }
      const NodeId parent = below(random, tree.size());
      if (tree.depth(parent) < most_levels)
        add(tree, parent, below(random, options_.vocabulary), random);
    }
  }

  NodeId add(DraftTree& tree, NodeId parent, TokenId token, std::mt19937& random) const {
    const float step = -static_cast<float>(below(random, 100)) / 50.0f;
    const bool is_probe = options_.probes > 0 && below(random, 1000) < options_.probes * 1000;
    if (is_probe || tree[parent].kind == NodeKind::probe) {
      return tree.add_probe(parent, token, tree[parent].log_p + step);
    }
    return tree.add(parent, token, tree[parent].log_p + step);
  }

  std::span<const TokenId> continuation(const std::vector<TokenId>& tokens) const {
    for (const auto& text : texts_) {
      if (text.size() > tokens.size() && std::equal(tokens.begin(), tokens.end(), text.begin())) {
        return std::span(text).subspan(tokens.size());
      }
    }
    return {};
  }

  RandomTreeOptions options_;
  std::vector<std::vector<TokenId>> texts_;
};

inline std::unique_ptr<Drafter> make_random_tree_drafter(const RandomTreeOptions& options,
                                                         std::vector<std::vector<TokenId>> texts) {
  return std::make_unique<RandomTreeDrafter>(options, std::move(texts));
}

}  // namespace talon
