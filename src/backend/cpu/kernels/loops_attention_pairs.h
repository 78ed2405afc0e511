#pragma once

#include "backend/cpu/kernels/loops_attention.h"
#include "backend/cpu/kernels/loops_rounded.h"

// Attention over a bf16 cache, in products of bf16 pairs (loops_rounded.h): queries and weights are
// rounded to bf16, sums are float32. A score goes through pairs of dimensions, a value through the
// pairs 2 k, 2 k + 1 of logical positions, of which the second is added first wherever they lie. So
// it does not matter which queries are handled together, nor which positions lie in pages.
namespace talon::cpu {
namespace {

constexpr int kPairVectorBytes = 64;  // of 16 pairs

/// Scores of kBlocks * 16 consecutive slots for kQueries queries.
template <typename Pairs, int kQueries, int kBlocks>
inline void score_pair_slots(const AttentionCall& call, const Batch& batch, const std::byte* keys,
                             float* scores, Ahead& ahead) {
  Floats sums[kQueries][kBlocks];
  const std::byte* q[kQueries];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    q[i] = batch.queries[i].rounded;
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) sums[i][b] = zero_floats();
  }
  const std::ptrdiff_t block_bytes = key_block_bytes<Form::f16>(call.dim);
  for (int d = 0; d < call.dim; d += 2, keys += kPairVectorBytes) {
    if (d % Ahead::kStep == 0) ahead.fetch();
    Pairs key[kBlocks];
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) key[b] = Pairs(keys + b * block_bytes);
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const std::byte* pair = q[i] + d * Pairs::kInputBytes;
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = key[b].dot(sums[i][b], pair);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) store(scores + i * batch.stride + b * kLanes, sums[i][b]);
  }
}

/// Scores of `blocks` * 16 slots for 1 to kQueries queries.
template <typename Pairs, int kQueries = kQueryBatch>
void score_pairs(const AttentionCall& call, const Batch& batch, const std::byte* keys, int blocks,
                 Ahead& ahead) {
  if constexpr (kQueries > 1) {
    if (batch.count < kQueries) {
      return score_pairs<Pairs, kQueries - 1>(call, batch, keys, blocks, ahead);
    }
  }
  const std::ptrdiff_t block_bytes = key_block_bytes<Form::f16>(call.dim);
  int b = 0;
  for (; b + kVectorBatch <= blocks; b += kVectorBatch) {
    score_pair_slots<Pairs, kQueries, kVectorBatch>(call, batch, keys + b * block_bytes,
                                                    batch.scores + b * kLanes, ahead);
  }
  for (; b < blocks; ++b) {
    score_pair_slots<Pairs, kQueries, 1>(call, batch, keys + b * block_bytes,
                                         batch.scores + b * kLanes, ahead);
  }
}

template <typename Pairs>
void score_pairs_of_page(const AttentionCall& call, const Reach& reach, int page) {
  const int start = page * kPageSlots;
  if (reach.begin >= start + kPageSlots || reach.end <= start) return;
  const std::byte* keys = page_of(call, call.page_ids[page]);
  Ahead ahead = ahead_of(call, page, 0, call.value_offset);
  for (int i = 0; i < call.query_count; i += kQueryBatch) {
    const Batch batch = batch_of(call, i, lesser(kQueryBatch, call.query_count - i), start);
    const int end = call.uniform ? paged_end(batch.queries[0]) : reach_of(batch).end;
    score_pairs<Pairs>(call, batch, keys, (slot_in_page(end, start) + kLanes - 1) / kLanes, ahead);
  }
}

/// The weights of a query's positions, rounded in place by round_weights().
template <typename Pairs>
inline std::byte* weights_at(const AttentionCall& call, int query, int position) {
  float* scores = call.scores + static_cast<std::ptrdiff_t>(query) * kAttentionBlock;
  return reinterpret_cast<std::byte*>(scores) + position * Pairs::kInputBytes;
}

template <typename Pairs>
void round_weights(const AttentionCall& call) {
  for (int i = 0; i < call.query_count; ++i) {
    const int begin = call.queries[i].begin / (2 * kLanes) * (2 * kLanes);
    const float* scores = call.scores + static_cast<std::ptrdiff_t>(i) * kAttentionBlock;
    for (int j = begin; j < call.queries[i].end; j += 2 * kLanes) {
      Pairs::round_two_vectors(scores + j, weights_at<Pairs>(call, i, j));
    }
  }
}

/// Adds the values of `count` pairs of slots to kVectors vectors of the sums of kQueries queries.
template <typename Pairs, int kQueries, int kVectors>
inline void add_pair_vectors(const AttentionCall& call, int first, int position,
                             const std::byte* values, int count, int dim, Ahead& ahead) {
  constexpr int kPairBytes = 2 * Pairs::kInputBytes;
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(call.padded_dim) * 4;
  Floats sums[kQueries][kVectors];
  float* partials[kQueries];
  const std::byte* weights[kQueries];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    partials[i] = call.queries[first + i].partial + kPartialHead + dim;
    weights[i] = weights_at<Pairs>(call, first + i, position);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = load(partials[i] + v * kLanes);
  }
  values += static_cast<std::ptrdiff_t>(dim) * 4;
  for (int j = 0; j < count; ++j, values += row_bytes) {
    if (j % (Ahead::kStep / 2) == 0) ahead.fetch();
    Pairs value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) value[v] = Pairs(values + v * kPairVectorBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = value[v].dot(sums[i][v], weights[i] + j * kPairBytes);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(partials[i] + v * kLanes, sums[i][v]);
  }
}

/// All dimensions of `count` pairs of slots from `values` on, which are the positions from
/// `position` on, for 1 to kQueries queries.
template <typename Pairs, int kQueries = kQueryBatch>
void add_pairs(const AttentionCall& call, int first, int queries, int position,
               const std::byte* values, int count, Ahead& ahead) {
  if constexpr (kQueries > 1) {
    if (queries < kQueries) {
      return add_pairs<Pairs, kQueries - 1>(call, first, queries, position, values, count, ahead);
    }
  }
  int dim = 0;
  for (; dim + kVectorBatch * kLanes <= call.padded_dim; dim += kVectorBatch * kLanes) {
    add_pair_vectors<Pairs, kQueries, kVectorBatch>(call, first, position, values, count, dim,
                                                    ahead);
  }
  for (; dim < call.padded_dim; dim += kLanes) {
    add_pair_vectors<Pairs, kQueries, 1>(call, first, position, values, count, dim, ahead);
  }
}

/// Adds the value of one position, which lies in `slot` of the page at `page_values`. What else
/// lies in the slot's pair is not looked at.
template <typename Pairs>
void add_single(const AttentionCall& call, int first, int queries, int position,
                const std::byte* page_values, int slot) {
  const int half = slot % 2;
  const std::byte* values =
      page_values + static_cast<std::ptrdiff_t>(slot / 2) * call.padded_dim * 4;
  for (int i = first; i < first + queries; ++i) {
    alignas(8) std::byte pair[2 * Pairs::kInputBytes] = {};
    __builtin_memcpy(pair + half * Pairs::kInputBytes, weights_at<Pairs>(call, i, position),
                     Pairs::kInputBytes);
    float* partial = call.queries[i].partial + kPartialHead;
    for (int dim = 0; dim < call.padded_dim; dim += kLanes) {
      const Pairs value = Pairs(values + static_cast<std::ptrdiff_t>(dim) * 4).only(half);
      store(partial + dim, value.dot(load(partial + dim), pair));
    }
  }
}

/// Of what a query sees in pages, the end of the last pair that lies there whole.
inline int whole_end(const AttentionQuery& query) { return paged_end(query) / 2 * 2; }

/// Values of positions [begin, end), as far as they lie in the page that starts at `start`; end is
/// even.
template <typename Pairs>
void add_pair_range(const AttentionCall& call, int first, int queries, int start, int begin,
                    int end, const std::byte* values, Ahead& ahead) {
  begin = slot_in_page(begin, start);
  end = slot_in_page(end, start);
  if (begin >= end) return;
  if (begin % 2 == 1) {
    add_single<Pairs>(call, first, queries, start + begin, values, begin);
    ++begin;
  }
  if (begin == end) return;
  add_pairs<Pairs>(call, first, queries, start + begin,
                   values + static_cast<std::ptrdiff_t>(begin / 2) * call.padded_dim * 4,
                   (end - begin) / 2, ahead);
}

/// What all queries of a batch see is added for them together, what lies before and behind singly.
template <typename Pairs>
void add_pair_batches(const AttentionCall& call, int start, const std::byte* values, Ahead& ahead) {
  for (int i = 0; i < call.query_count; i += kQueryBatch) {
    const int count = lesser(kQueryBatch, call.query_count - i);
    const AttentionQuery* queries = call.queries + i;
    if (call.uniform) {
      add_pair_range<Pairs>(call, i, count, start, queries[0].begin, whole_end(queries[0]), values,
                            ahead);
      continue;
    }
    const Reach reach = reach_of({queries, count, nullptr, 0});
    const int begin = (reach.common_begin + 1) / 2 * 2;
    const int end = reach.common_end / 2 * 2;
    for (int j = 0; j < count; ++j) {
      add_pair_range<Pairs>(call, i + j, 1, start, queries[j].begin,
                            lesser(begin, whole_end(queries[j])), values, ahead);
    }
    add_pair_range<Pairs>(call, i, count, start, begin, end, values, ahead);
    for (int j = 0; j < count; ++j) {
      add_pair_range<Pairs>(call, i + j, 1, start, greater(begin, end), whole_end(queries[j]),
                            values, ahead);
    }
  }
}

template <typename Pairs>
void add_pairs_of_page(const AttentionCall& call, const Reach& reach, int page) {
  const int start = page * kPageSlots;
  if (reach.begin >= start + kPageSlots || reach.end <= start) return;
  const std::byte* values = page_of(call, call.page_ids[page]) + call.value_offset;
  Ahead ahead = ahead_of(call, page, call.value_offset,
                         static_cast<std::size_t>(kPageSlots * call.padded_dim * 2));
  add_pair_batches<Pairs>(call, start, values, ahead);
}

/// Values of the positions behind the whole pairs in pages, for queries of the same row.
template <typename Pairs>
void add_last_positions(const AttentionCall& call, int first, int queries) {
  const AttentionQuery& row = call.queries[first];
  const auto add = [&](int position) {
    if (position < row.begin || position >= row.end) return;
    const bool paged = position < row.contiguous;
    const std::int32_t slot = paged ? position % kPageSlots : row.extra[position - row.contiguous];
    const std::int32_t page = paged ? call.page_ids[position / kPageSlots] : slot / kPageSlots;
    add_single<Pairs>(call, first, queries, position, page_of(call, page) + call.value_offset,
                      slot % kPageSlots);
  };
  for (int pair = greater(whole_end(row), row.begin) / 2; 2 * pair < row.end; ++pair) {
    add(2 * pair + 1);
    add(2 * pair);
  }
}

/// As for_rows(), of all rows: function(first query, count).
template <typename Function>
void for_all_rows(const AttentionCall& call, const Function& function) {
  for (int row = 0; row < call.query_count; row += call.heads) {
    for (int i = row; i < row + call.heads; i += kQueryBatch) {
      function(i, lesser(kQueryBatch, row + call.heads - i));
    }
  }
}

template <typename Pairs>
void attend_pairs(const AttentionCall& call) {
  constexpr int kPages = kAttentionBlock / kPageSlots;
  const FlushSubnormals flush;
  const Batch all = batch_of(call, 0, call.uniform ? 1 : call.query_count, 0);
  const Reach reach = reach_of(all);
  for (int page = 0; page < kPages; ++page) score_pairs_of_page<Pairs>(call, reach, page);
  for_rows(call, [&](const Batch& batch) {
    score_extra(call, batch, key_block_bytes<Form::f16>(call.dim),
                [&](const Batch& part, const std::byte* keys) {
                  Ahead none{};
                  score_pairs<Pairs>(call, part, keys, 1, none);
                });
  });
  if (call.soft_cap > 0) cap_scores(call);
  weigh_all(call);
  round_weights<Pairs>(call);
  for (int page = 0; page < kPages; ++page) add_pairs_of_page<Pairs>(call, reach, page);
  for_all_rows(call,
               [&](int first, int queries) { add_last_positions<Pairs>(call, first, queries); });
}

}  // namespace
}  // namespace talon::cpu
