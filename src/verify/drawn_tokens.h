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

/// The token that the target would have there if it could have none of `others`: with drawn_token()
/// among them what comes next in the race. -1: no other may be drawn. For drafters that want to
/// see more than the winner (TokenAfter::without); it costs a copy of the row and a draw.
TokenId drawn_without(const VerifyInput& input, NodeId node, std::span<const TokenId> others);

}  // namespace talon
