#pragma once

#include <cstdint>

#include "train/image/network/kernel_math.h"

namespace talon {

/// One head of one picture: `rows` rows of `width` numbers, each `stride` numbers after the one
/// before it. Row r sees rows 0 .. r.
struct AttentionSizes {
  std::int64_t rows, width;
  std::int64_t stride;      // of queries, keys, values and their gradients
  std::int64_t out_stride;  // of what is seen, and of its gradient
};

/// Numbers of `room` that one head takes.
std::int64_t attention_room(const AttentionSizes& sizes);

/// out = softmax(q k / sqrt(width)) v, queries and keys turned by their rows' angles: pairs
/// (i, i + width / 2), cosine and sine [rows, width / 2]. log_sums [rows]: of the softmax, for the
/// gradient. T: Bf16, float, double; sums are in float, for double in double (Wide).
template <typename T, typename Wide>
void attend_head(const T* q, const T* k, const T* v, T* out, Wide* log_sums, const Wide* cosine,
                 const Wide* sine, const AttentionSizes& sizes, Wide* room);

/// The gradients dq, dk and dv from dout.
template <typename T, typename Wide>
void attend_head_backward(const T* q, const T* k, const T* v, const T* out, const T* dout, T* dq,
                          T* dk, T* dv, const Wide* log_sums, const Wide* cosine, const Wide* sine,
                          const AttentionSizes& sizes, Wide* room);

/// to = from with a share of the numbers left out, the others scaled by `factor`. Number i stays
/// if 16 bits drawn for it are at least `least`; `first`, a multiple of 8, is that of from[0]. The
/// same seed leaves out the same ones.
template <typename Wide>
void drop_numbers(const Wide* from, Wide* to, std::int64_t first, std::int64_t count,
                  std::uint32_t least, Wide factor, std::uint64_t seed);

}  // namespace talon
