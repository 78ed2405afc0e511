#include "verify/drawn_tokens.h"

#include <limits>
#include <vector>

#include "core/error.h"
#include "verify/checked_tree.h"

namespace talon {
namespace {

TokenId draw_after(const VerifyInput& input, NodeId node, std::span<const TokenId> path) {
  const SampleHistory history{input.committed, path, input.prompt_length};
  if (input.sampler->plain_argmax()) {
    // The largest of all is the largest of the allowed, if it is one of them.
    const TokenId largest = input.rows->argmax(node);
    if (input.sampler->allows(history, largest)) return largest;
  }
  const std::uint64_t position = input.committed.size() + path.size();
  if (input.sampler->plain_race()) {  // so is the winner of all
    const RaceDraw draw{{*input.random, position}, input.sampler->options().temperature};
    const TokenId winner = input.rows->race(node, draw);
    if (input.sampler->allows(history, winner)) return winner;
  }
  return input.sampler->sample(input.rows->logits(node), history, *input.random, position);
}

}  // namespace

TokenId drawn_token(const VerifyInput& input, NodeId node, std::span<const TokenId> path) {
  if (!input.drawn) return draw_after(input, node, path);
  TokenId& token = (*input.drawn)[static_cast<std::size_t>(node)];
  if (token < 0) token = draw_after(input, node, path);
  return token;
}

TokenId drawn_token(const VerifyInput& input, NodeId node) {
  return drawn_token(input, node, path_tokens(*input.tree, node));
}

TokenId drawn_without(const VerifyInput& input, NodeId node, std::span<const TokenId> others) {
  const std::span<const float> logits = input.rows->logits(node);
  std::vector<float> row(logits.begin(), logits.end());
  for (const TokenId token : others)
    row.at(static_cast<std::size_t>(token)) = -std::numeric_limits<float>::infinity();
  const std::vector<TokenId> path = path_tokens(*input.tree, node);
  const SampleHistory history{input.committed, path, input.prompt_length};
  try {
    return input.sampler->sample(row, history, *input.random, input.committed.size() + path.size());
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace talon
