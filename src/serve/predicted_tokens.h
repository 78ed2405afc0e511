#pragma once

#include <span>

#include "core/types.h"

namespace talon {

/// How many tokens of a prediction came, in its order, with others between them or not: the length
/// of the longest common subsequence. It is of the texts alone, however they were drafted.
/// Bit-parallel (Crochemore et al., 2001): answer.size() * prediction.size() / 64 steps.
int predicted_tokens(std::span<const TokenId> prediction, std::span<const TokenId> answer);

}  // namespace talon
