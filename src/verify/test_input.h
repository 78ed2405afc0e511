#pragma once

#include <cmath>
#include <vector>

#include "verify/verifier.h"

// For tests: what a rule is given, made from tables.

namespace talon {

/// A tree whose rows are given per node.
struct TestInput {
  TestInput(DraftTree the_tree, std::vector<std::vector<float>> rows, SamplerOptions options,
            std::uint64_t seed = 1)
      : tree(std::move(the_tree)),
        logits(std::move(rows)),
        sampler(std::move(options), static_cast<int>(logits.front().size())),
        random(seed, 0),
        committed{tree.token[0]} {}

  VerifyInput input() {
    VerifyInput result;
    result.tree = &tree;
    result.logits = [this](NodeId node) -> std::span<const float> {
      scratch = logits.at(
          static_cast<std::size_t>(node));  // as in the engine: one row at a time is valid
      return scratch;
    };
    result.argmax = [this](NodeId node) {
      const auto& row = logits.at(static_cast<std::size_t>(node));
      return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
    };
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
  std::vector<float> scratch;
};

inline std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

}  // namespace talon
