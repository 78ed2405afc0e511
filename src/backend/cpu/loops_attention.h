#pragma once

#include "backend/cpu/loops_math.h"

// Attention of query vectors over one block of cached positions, in terms of the lanes_*.h of one
// instruction set, which the including unit has included before. Every score, every sum and every
// value is one chain of fused multiply-adds in the order of logical positions, so it does not
// matter which queries are handled together.
namespace talon::cpu {
namespace {

constexpr int kPageSlots = 64;

template <bool kHalf>
inline Floats load_stored(const std::byte* p) {
  if constexpr (kHalf) {
    return load_half(p);
  } else {
    return load(reinterpret_cast<const float*>(p));
  }
}

inline const std::byte* page_of(const AttentionCall& call, std::int32_t page) {
  return call.pages + static_cast<std::size_t>(page) * call.page_stride;
}

/// Scores of kBlocks * 16 consecutive slots for kQueries queries.
template <bool kHalf, int kQueries, int kBlocks>
inline void score_slots(const AttentionCall& call, const std::byte* keys,
                        const AttentionQuery* queries, float* scores, std::ptrdiff_t stride) {
  constexpr int kBytes = (kHalf ? 2 : 4) * kLanes;
  Floats sums[kQueries][kBlocks];
  const float* q[kQueries];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
    q[i] = queries[i].q;
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) sums[i][b] = zero_floats();
  }
  const std::ptrdiff_t block_bytes = static_cast<std::ptrdiff_t>(call.dim) * kBytes;
  for (int d = 0; d < call.dim; ++d, keys += kBytes) {
    Floats key[kBlocks];
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) key[b] = load_stored<kHalf>(keys + b * block_bytes);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Floats factor = broadcast(q[i][d]);
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = fma(factor, key[b], sums[i][b]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) store(scores + i * stride + b * kLanes, sums[i][b]);
  }
}

template <bool kHalf, int kQueries>
void score_page(const AttentionCall& call, const std::byte* keys, int blocks,
                const AttentionQuery* queries, float* scores, std::ptrdiff_t stride) {
  const std::ptrdiff_t block_bytes =
      static_cast<std::ptrdiff_t>(call.dim) * (kHalf ? 2 : 4) * kLanes;
  int b = 0;
  for (; b + kVectorBatch <= blocks; b += kVectorBatch) {
    score_slots<kHalf, kQueries, kVectorBatch>(call, keys + b * block_bytes, queries,
                                               scores + b * kLanes, stride);
  }
  for (; b < blocks; ++b) {
    score_slots<kHalf, kQueries, 1>(call, keys + b * block_bytes, queries, scores + b * kLanes,
                                    stride);
  }
}

/// score_page for 1 to kQueryBatch queries.
template <bool kHalf>
void score_page(const AttentionCall& call, int query_count, const std::byte* keys, int blocks,
                const AttentionQuery* queries, float* scores, std::ptrdiff_t stride) {
  if constexpr (kQueryBatch >= 4) {
    if (query_count == 4) return score_page<kHalf, 4>(call, keys, blocks, queries, scores, stride);
    if (query_count == 3) return score_page<kHalf, 3>(call, keys, blocks, queries, scores, stride);
  }
  if constexpr (kQueryBatch >= 2) {
    if (query_count == 2) return score_page<kHalf, 2>(call, keys, blocks, queries, scores, stride);
  }
  score_page<kHalf, 1>(call, keys, blocks, queries, scores, stride);
}

/// Adds weight[j] * value of slot j, j in [0, count), to the value sums of kQueries queries.
template <bool kHalf, int kQueries, int kVectors>
inline void add_values(const AttentionCall& call, const std::byte* values, int count, int dim,
                       const AttentionQuery* queries, const float* weights, std::ptrdiff_t stride) {
  constexpr int kBytes = (kHalf ? 2 : 4);
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(call.padded_dim) * kBytes;
  Floats sums[kQueries][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = load(queries[i].partial + kPartialHead + dim + v * kLanes);
    }
  }
  values += static_cast<std::ptrdiff_t>(dim) * kBytes;
  for (int j = 0; j < count; ++j, values += row_bytes) {
    Floats value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      value[v] = load_stored<kHalf>(values + v * kLanes * kBytes);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const Floats weight = broadcast(weights[i * stride + j]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store(queries[i].partial + kPartialHead + dim + v * kLanes, sums[i][v]);
    }
  }
}

template <bool kHalf, int kQueries>
void add_values(const AttentionCall& call, const std::byte* values, int count,
                const AttentionQuery* queries, const float* weights, std::ptrdiff_t stride) {
  int dim = 0;
  for (; dim + kVectorBatch * kLanes <= call.padded_dim; dim += kVectorBatch * kLanes) {
    add_values<kHalf, kQueries, kVectorBatch>(call, values, count, dim, queries, weights, stride);
  }
  for (; dim < call.padded_dim; dim += kLanes) {
    add_values<kHalf, kQueries, 1>(call, values, count, dim, queries, weights, stride);
  }
}

template <bool kHalf>
void add_values(const AttentionCall& call, int query_count, const std::byte* values, int count,
                const AttentionQuery* queries, const float* weights, std::ptrdiff_t stride) {
  if constexpr (kQueryBatch >= 4) {
    if (query_count == 4)
      return add_values<kHalf, 4>(call, values, count, queries, weights, stride);
    if (query_count == 3)
      return add_values<kHalf, 3>(call, values, count, queries, weights, stride);
  }
  if constexpr (kQueryBatch >= 2) {
    if (query_count == 2)
      return add_values<kHalf, 2>(call, values, count, queries, weights, stride);
  }
  add_values<kHalf, 1>(call, values, count, queries, weights, stride);
}

inline int lesser(int a, int b) { return a < b ? a : b; }
inline int greater(int a, int b) { return a > b ? a : b; }

/// Of the positions that lie in pages: the first and the one past the last of this query.
inline int paged_end(const AttentionQuery& query) { return lesser(query.end, query.contiguous); }

template <bool kHalf>
void score_pages(const AttentionCall& call, const AttentionQuery* queries, int count,
                 float* scores) {
  int begin = kAttentionBlock;
  int end = 0;
  for (int i = 0; i < count; ++i) {
    begin = lesser(begin, queries[i].begin);
    end = greater(end, paged_end(queries[i]));
  }
  for (int page = begin / kPageSlots; page * kPageSlots < end; ++page) {
    const int slots = lesser(end - page * kPageSlots, kPageSlots);
    score_page<kHalf>(call, count, page_of(call, call.page_ids[page]),
                      (slots + kLanes - 1) / kLanes, queries, scores + page * kPageSlots,
                      kAttentionBlock);
  }
}

/// Scores of the positions that lie in extra slots, for queries of the same row. Whole blocks of 16
/// slots are scored and the lane kept.
template <bool kHalf>
void score_extra(const AttentionCall& call, const AttentionQuery* queries, int count,
                 float* scores) {
  constexpr int kBytes = (kHalf ? 2 : 4) * kLanes;
  float block_scores[kQueryBatch * kLanes];
  std::int32_t scored = -1;
  const AttentionQuery& row = queries[0];
  for (int j = greater(row.begin, row.contiguous); j < row.end; ++j) {
    const std::int32_t slot = row.extra[j - row.contiguous];
    if (slot / kLanes != scored) {
      scored = slot / kLanes;
      const std::ptrdiff_t block = slot % kPageSlots / kLanes;
      score_page<kHalf>(call, count, page_of(call, slot / kPageSlots) + block * call.dim * kBytes,
                        1, queries, block_scores, kLanes);
    }
    for (int i = 0; i < count; ++i) {
      scores[i * kAttentionBlock + j] = block_scores[i * kLanes + slot % kLanes];
    }
  }
}

/// Scores become exponentials relative to the largest one; partial gets that one, their sum, and
/// zeroed value sums.
inline void exponentials(const AttentionQuery& query, int padded_dim, float* scores) {
  const int first = query.begin / kLanes * kLanes;
  const int last = (query.end + kLanes - 1) / kLanes * kLanes;
  for (int j = first; j < query.begin; ++j) scores[j] = -__builtin_inff();
  for (int j = query.end; j < last; ++j) scores[j] = -__builtin_inff();
  Floats top = broadcast(-__builtin_inff());
  for (int j = first; j < last; j += kLanes) top = larger(load(scores + j), top);
  const float largest_score = max_of(top);
  top = broadcast(largest_score);
  Floats sum = zero_floats();
  for (int j = first; j < last; j += kLanes) {
    const Floats e = exponential(subtract(load(scores + j), top));
    store(scores + j, e);
    sum = add(sum, e);
  }
  query.partial[0] = largest_score;
  query.partial[1] = sum_of(sum);
  for (int d = 0; d < padded_dim; d += kLanes)
    store(query.partial + kPartialHead + d, zero_floats());
}

/// Values of positions [begin, end), all in pages.
template <bool kHalf>
void add_paged_values(const AttentionCall& call, const AttentionQuery* queries, int count,
                      int begin, int end, const float* weights) {
  constexpr std::ptrdiff_t kBytes = kHalf ? 2 : 4;
  while (begin < end) {
    const int page = begin / kPageSlots;
    const int run_end = lesser(end, (page + 1) * kPageSlots);
    const std::ptrdiff_t row = begin % kPageSlots;
    const std::byte* values =
        page_of(call, call.page_ids[page]) + call.value_offset + row * call.padded_dim * kBytes;
    add_values<kHalf>(call, count, values, run_end - begin, queries, weights + begin,
                      kAttentionBlock);
    begin = run_end;
  }
}

template <bool kHalf>
void add_values_of_pages(const AttentionCall& call, const AttentionQuery* queries, int count,
                         const float* weights) {
  int common = kAttentionBlock;
  bool same_begin = true;
  for (int i = 0; i < count; ++i) {
    common = lesser(common, paged_end(queries[i]));
    same_begin = same_begin && queries[i].begin == queries[0].begin;
  }
  if (same_begin) add_paged_values<kHalf>(call, queries, count, queries[0].begin, common, weights);
  for (int i = 0; i < count; ++i) {
    const int begin = same_begin ? greater(common, queries[i].begin) : queries[i].begin;
    add_paged_values<kHalf>(call, queries + i, 1, begin, paged_end(queries[i]),
                            weights + i * kAttentionBlock);
  }
}

template <bool kHalf>
void add_values_of_extra(const AttentionCall& call, const AttentionQuery* queries, int count,
                         const float* weights) {
  constexpr std::ptrdiff_t kBytes = kHalf ? 2 : 4;
  const AttentionQuery& row = queries[0];
  for (int j = greater(row.begin, row.contiguous); j < row.end; ++j) {
    const std::int32_t slot = row.extra[j - row.contiguous];
    const std::ptrdiff_t offset = slot % kPageSlots;
    const std::byte* values =
        page_of(call, slot / kPageSlots) + call.value_offset + offset * call.padded_dim * kBytes;
    add_values<kHalf>(call, count, values, 1, queries, weights + j, kAttentionBlock);
  }
}

template <bool kHalf>
void attend_block(const AttentionCall& call) {
  for (int i = 0; i < call.query_count; i += kQueryBatch) {
    score_pages<kHalf>(call, call.queries + i, lesser(kQueryBatch, call.query_count - i),
                       call.scores + i * kAttentionBlock);
  }
  for (int row = 0; row < call.query_count; row += call.heads) {
    for (int i = row; i < row + call.heads; i += kQueryBatch) {
      score_extra<kHalf>(call, call.queries + i, lesser(kQueryBatch, row + call.heads - i),
                         call.scores + i * kAttentionBlock);
    }
  }
  for (int i = 0; i < call.query_count; ++i) {
    exponentials(call.queries[i], call.padded_dim, call.scores + i * kAttentionBlock);
  }
  for (int i = 0; i < call.query_count; i += kQueryBatch) {
    add_values_of_pages<kHalf>(call, call.queries + i, lesser(kQueryBatch, call.query_count - i),
                               call.scores + i * kAttentionBlock);
  }
  for (int row = 0; row < call.query_count; row += call.heads) {
    for (int i = row; i < row + call.heads; i += kQueryBatch) {
      add_values_of_extra<kHalf>(call, call.queries + i, lesser(kQueryBatch, row + call.heads - i),
                                 call.scores + i * kAttentionBlock);
    }
  }
}

void attend(const AttentionCall& call) {
  if (call.half) {
    attend_block<true>(call);
  } else {
    attend_block<false>(call);
  }
}

void join_partials(float* total, const float* next, int padded_dim) {
  const float top = next[0] > total[0] ? next[0] : total[0];
  const Floats keep = broadcast(exponential(total[0] - top));
  const Floats take = broadcast(exponential(next[0] - top));
  const auto join = [&](int i, int n) {
    const Floats kept = multiply(load_first(total + i, n), keep);
    store_first(total + i, fma(load_first(next + i, n), take, kept), n);
  };
  join(1, 1);
  for (int d = 0; d < padded_dim; d += kLanes) join(kPartialHead + d, kLanes);
  total[0] = top;
}

void finish_partial(const float* total, int dim, float* out) {
  const Floats sum = broadcast(total[1]);
  for (int d = 0; d < dim; d += kLanes) {
    store_first(out + d, divide(load_first(total + kPartialHead + d, dim - d), sum), dim - d);
  }
}

}  // namespace
}  // namespace talon::cpu
