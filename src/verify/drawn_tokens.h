#pragma once

#include <span>
#include <vector>

#include "verify/verifier.h"

namespace talon {

/// The token that the target itself would have after `node`: drawn from the node's row with the
/// request's sampler at that position. path: tokens of the nodes from the root's child to `node`.
TokenId drawn_token(const VerifyInput& input, NodeId node, std::span<const TokenId> path);

/// The same for every node of the tree, probes included.
std::vector<TokenId> drawn_tokens(const VerifyInput& input);

}  // namespace talon
