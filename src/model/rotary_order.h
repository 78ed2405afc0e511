#pragma once

#include <cstdint>
#include <vector>

namespace talon {

// Rotary pairs within each head: (i, i + head_dim / 2) in the half-split order that kernels know,
// (2 i, 2 i + 1) in the pairwise order of many files.

/// Row i of a matrix in half-split order is row order[i] of the same in pairwise order.
std::vector<std::int32_t> half_split_order(int heads, int head_dim);
/// The inverse.
std::vector<std::int32_t> pairwise_order(int heads, int head_dim);

}  // namespace talon
