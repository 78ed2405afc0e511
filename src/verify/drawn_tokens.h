#pragma once

#include <span>

#include "verify/verifier.h"

namespace talon {

/// The token that the target itself would have after `node`: drawn from the node's row with the
/// request's sampler at that position, once where input.drawn keeps it. path: tokens of the nodes
/// from the root's child to `node`.
TokenId drawn_token(const VerifyInput& input, NodeId node, std::span<const TokenId> path);

/// The same with the path of the node, which may be a probe.
TokenId drawn_token(const VerifyInput& input, NodeId node);

}  // namespace talon
