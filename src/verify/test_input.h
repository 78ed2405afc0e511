#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "verify/verifier.h"

// For tests: what a rule is given, made from tables.

namespace talon {

/// Rows made when they are asked for; one at a time is valid, as in the engine.
class TestRows : public TargetRows {
 public:
  explicit TestRows(std::function<std::vector<float>(NodeId)> row_of)
      : row_of_(std::move(row_of)) {}
  std::span<const float> logits(NodeId node) override { return row_ = row_of_(node); }
  TokenId argmax(NodeId node) override {
    const std::span<const float> row = logits(node);
    return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  }
  TokenId race(NodeId node, const RaceDraw& draw) override {
    return draw_by_race(logits(node), draw);
  }

 private:
  std::function<std::vector<float>(NodeId)> row_of_;
  std::vector<float> row_;
};

/// A tree whose rows are given per node.
struct TestInput {
  TestInput(DraftTree the_tree, std::vector<std::vector<float>> row_of, SamplerOptions options,
            std::uint64_t seed = 1)
      : tree(std::move(the_tree)),
        logits(std::move(row_of)),
        sampler(std::move(options), static_cast<int>(logits.front().size())),
        random(seed, 0),
        committed{tree[0].token} {}

  VerifyInput input() {
    VerifyInput result;
    result.tree = &tree;
    result.rows = &rows;
    result.committed = committed;
    result.prompt_length = 1;
    result.sampler = &sampler;
    result.random = &random;
    return result;
  }

  DraftTree tree;
  std::vector<std::vector<float>> logits;
  Sampler sampler;
  PositionRandom random;
  std::vector<TokenId> committed;  // root included
  TestRows rows{[this](NodeId node) { return logits.at(static_cast<std::size_t>(node)); }};
};

inline std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

}  // namespace talon
