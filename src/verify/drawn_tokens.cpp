#include "verify/drawn_tokens.h"

#include "verify/checked_tree.h"

namespace talon {

TokenId drawn_token(const VerifyInput& input, NodeId node, std::span<const TokenId> path) {
  const SampleHistory history{input.committed, path, input.prompt_length};
  if (input.sampler->plain_argmax()) {
    // The largest of all is the largest of the allowed, if it is one of them.
    const TokenId largest = input.rows->argmax(node);
    if (input.sampler->allows(history, largest)) return largest;
  }
  const std::uint64_t position = input.committed.size() + path.size();
  return input.sampler->sample(input.rows->logits(node), history, *input.random, position);
}

std::vector<TokenId> drawn_tokens(const VerifyInput& input) {
  std::vector<TokenId> tokens;
  for (NodeId node = 0; node < input.tree->size(); ++node) {
    tokens.push_back(drawn_token(input, node, path_tokens(*input.tree, node)));
  }
  return tokens;
}

}  // namespace talon
