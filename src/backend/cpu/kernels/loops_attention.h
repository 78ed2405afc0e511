#pragma once

#include "backend/cpu/kernels/loops_attention_memory.h"
#include "backend/cpu/kernels/loops_math.h"

// Attention of query vectors over one block of cached positions, in terms of the lanes_*.h of one
// instruction set, which the including unit has included before. Every score, every sum and every
// value is one chain of fused multiply-adds in the order of logical positions, so it does not
// matter which queries are handled together.
namespace talon::cpu {
namespace {

constexpr int kWeighBatch = 3;  // queries whose softmaxes are computed side by side

/// Queries that are handled together, with their scores, which become their weights.
struct Batch {
  const AttentionQuery* queries;
  int count;
  float* scores;
  std::ptrdiff_t stride;  // floats from one query's scores to the next one's
};

/// Scores of kBlocks * 16 consecutive slots for kQueries queries. With kKeep the keys are also left
/// at `kept` in the form of a page.
template <Form kForm, int kQueries, int kBlocks, bool kKeep>
inline void score_slots(const AttentionCall& call, const Batch& batch, const std::byte* keys,
                        float* scores, float* kept, Ahead& ahead) {
  Floats sums[kQueries][kBlocks];
  const float* q[kQueries];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    q[i] = batch.queries[i].q;
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) sums[i][b] = zero_floats();
  }
  const std::ptrdiff_t block_bytes = key_block_bytes<kForm>(call.dim);
  for (int d = 0; d < call.dim; ++d, keys += key_step<kForm>()) {
    if (d % Ahead::kStep == 0) ahead.fetch();
    Floats key[kBlocks];
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      key[b] = load_stored<kForm>(keys + b * block_bytes);
      if constexpr (kKeep) store(kept + d * kPageSlots + b * kLanes, key[b]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const Floats factor = broadcast(q[i][d]);
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = fma(factor, key[b], sums[i][b]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) store(scores + i * batch.stride + b * kLanes, sums[i][b]);
  }
}

/// Scores of `blocks` * 16 slots for 1 to kQueries queries.
template <Form kForm, bool kKeep = false, int kQueries = kQueryBatch>
void score(const AttentionCall& call, const Batch& batch, const std::byte* keys, int blocks,
           Ahead& ahead) {
  if constexpr (kQueries > 1) {
    if (batch.count < kQueries) {
      return score<kForm, kKeep, kQueries - 1>(call, batch, keys, blocks, ahead);
    }
  }
  const std::ptrdiff_t block_bytes = key_block_bytes<kForm>(call.dim);
  int b = 0;
  for (; b + kVectorBatch <= blocks; b += kVectorBatch) {
    score_slots<kForm, kQueries, kVectorBatch, kKeep>(call, batch, keys + b * block_bytes,
                                                      batch.scores + b * kLanes,
                                                      call.floats + b * kLanes, ahead);
  }
  for (; b < blocks; ++b) {
    score_slots<kForm, kQueries, 1, kKeep>(call, batch, keys + b * block_bytes,
                                           batch.scores + b * kLanes, call.floats + b * kLanes,
                                           ahead);
  }
}

/// Adds weight[j] * value of slot j, j in [0, count), to the value sums of kQueries queries. With
/// kKeep the values are also left at `kept` as floats.
template <Form kForm, int kQueries, int kVectors, bool kKeep>
inline void add_vectors(const AttentionCall& call, const Batch& batch, const std::byte* values,
                        int count, int dim, float* kept, Ahead& ahead) {
  constexpr int kBytes = bytes_of(kForm);
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(call.padded_dim) * kBytes;
  Floats sums[kQueries][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = load(batch.queries[i].partial + kPartialHead + dim + v * kLanes);
    }
  }
  values += static_cast<std::ptrdiff_t>(dim) * kBytes;
  for (int j = 0; j < count; ++j, values += row_bytes) {
    if (j % Ahead::kStep == 0) ahead.fetch();
    Floats value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      value[v] = load_stored<kForm>(values + v * kLanes * kBytes);
      if constexpr (kKeep) store(kept + j * call.padded_dim + dim + v * kLanes, value[v]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const Floats weight = broadcast(batch.scores[i * batch.stride + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      store(batch.queries[i].partial + kPartialHead + dim + v * kLanes, sums[i][v]);
    }
  }
}

/// All dimensions of `count` slots, for 1 to kQueries queries.
template <Form kForm, bool kKeep = false, int kQueries = kQueryBatch>
void add_values(const AttentionCall& call, const Batch& batch, const std::byte* values, int count,
                float* kept, Ahead& ahead) {
  if constexpr (kQueries > 1) {
    if (batch.count < kQueries) {
      return add_values<kForm, kKeep, kQueries - 1>(call, batch, values, count, kept, ahead);
    }
  }
  int dim = 0;
  for (; dim + kVectorBatch * kLanes <= call.padded_dim; dim += kVectorBatch * kLanes) {
    add_vectors<kForm, kQueries, kVectorBatch, kKeep>(call, batch, values, count, dim, kept, ahead);
  }
  for (; dim < call.padded_dim; dim += kLanes) {
    add_vectors<kForm, kQueries, 1, kKeep>(call, batch, values, count, dim, kept, ahead);
  }
}

/// One past the last position that lies in a page.
inline int paged_end(const AttentionQuery& query) { return lesser(query.end, query.contiguous); }

/// Positions in pages that any of some queries sees, and those that all of them see.
struct Reach {
  int begin = kAttentionBlock;
  int end = 0;
  int common_begin = 0;
  int common_end = kAttentionBlock;
};
inline Reach reach_of(const Batch& batch) {
  Reach reach;
  for (int i = 0; i < batch.count; ++i) {
    const int begin = batch.queries[i].begin;
    const int end = paged_end(batch.queries[i]);
    reach.begin = lesser(reach.begin, begin);
    reach.common_begin = greater(reach.common_begin, begin);
    reach.end = greater(reach.end, end);
    reach.common_end = lesser(reach.common_end, end);
  }
  return reach;
}

/// The slot of a position in the page that starts at `start`, kept within the page.
inline int slot_in_page(int position, int start) {
  return lesser(greater(position - start, 0), kPageSlots);
}

/// Queries [first, first + count) and their scores from position `start` on.
inline Batch batch_of(const AttentionCall& call, int first, int count, int start) {
  return {call.queries + first, count,
          call.scores + static_cast<std::ptrdiff_t>(first) * kAttentionBlock + start,
          kAttentionBlock};
}

/// `bytes` bytes at `offset` of the memory that takes this page's place in the next call.
inline Ahead ahead_of(const AttentionCall& call, int page, std::size_t offset, std::size_t bytes) {
  if (call.next[page] == nullptr) return {};
  const std::byte* at = call.next[page] + offset;
  const int batches = (call.query_count + kQueryBatch - 1) / kQueryBatch;
  const int steps = kPageSlots / Ahead::kStep * batches;
  return {at, at + bytes, (static_cast<int>(bytes / 64) + steps - 1) / steps};
}

/// `blocks` * 16 keys as floats [dim][64 slots].
template <Form kForm>
void keys_to_floats(const AttentionCall& call, const std::byte* keys, int blocks) {
  for (int b = 0; b < blocks; ++b) {
    for (int d = 0; d < call.dim; ++d, keys += key_step<kForm>()) {
      store(call.floats + d * kPageSlots + b * kLanes, load_stored<kForm>(keys));
    }
  }
}

template <Form kForm>
void values_to_floats(const AttentionCall& call, const std::byte* values, int slots) {
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(slots) * call.padded_dim;
  for (std::ptrdiff_t i = 0; i < count; i += kLanes) {
    store(call.floats + i, load_stored<kForm>(values + i * bytes_of(kForm)));
  }
}

/// For queries from `first` on.
template <Form kForm>
void score_batches(const AttentionCall& call, int first, int start, const std::byte* keys,
                   Ahead& ahead) {
  for (int i = first; i < call.query_count; i += kQueryBatch) {
    const Batch batch = batch_of(call, i, lesser(kQueryBatch, call.query_count - i), start);
    const int end = call.uniform ? paged_end(batch.queries[0]) : reach_of(batch).end;
    score<kForm>(call, batch, keys, (slot_in_page(end, start) + kLanes - 1) / kLanes, ahead);
  }
}

/// Scores of the slots of one of the block's pages.
template <Form kForm>
void score_page(const AttentionCall& call, const Reach& reach, int page) {
  const int start = page * kPageSlots;
  if (reach.begin >= start + kPageSlots || reach.end <= start) return;
  const std::byte* keys = page_of(call, call.page_ids[page]);
  Ahead ahead = ahead_of(call, page, 0, call.value_offset);
  if (call.floats == nullptr) return score_batches<kForm>(call, 0, start, keys, ahead);
  const int blocks = (slot_in_page(reach.end, start) + kLanes - 1) / kLanes;
  const int first = call.uniform ? kQueryBatch : 0;
  if (call.uniform) {
    score<kForm, true>(call, batch_of(call, 0, kQueryBatch, start), keys, blocks, ahead);
  } else {
    keys_to_floats<kForm>(call, keys, blocks);
  }
  score_batches<Form::page>(call, first, start, reinterpret_cast<const std::byte*>(call.floats),
                            ahead);
}

/// Scores of the positions that lie in extra slots, for queries of the same row. Whole blocks of 16
/// slots, block_bytes long, are scored by score_block(batch, keys) and the lane kept.
template <typename ScoreBlock>
void score_extra(const AttentionCall& call, const Batch& batch, std::ptrdiff_t block_bytes,
                 const ScoreBlock& score_block) {
  float block_scores[kQueryBatch * kLanes];
  std::int32_t scored = -1;
  const AttentionQuery& row = batch.queries[0];
  for (int j = greater(row.begin, row.contiguous); j < row.end; ++j) {
    const std::int32_t slot = row.extra[j - row.contiguous];
    if (slot / kLanes != scored) {
      scored = slot / kLanes;
      const std::ptrdiff_t block = slot % kPageSlots / kLanes;
      score_block({batch.queries, batch.count, block_scores, kLanes},
                  page_of(call, slot / kPageSlots) + block * block_bytes);
    }
    for (int i = 0; i < batch.count; ++i) {
      batch.scores[i * batch.stride + j] = block_scores[i * kLanes + slot % kLanes];
    }
  }
}

/// Scores [first, last) of kQueries queries, multiples of 16, become powers of two relative to the
/// largest one; a partial gets that one, their sum, and zeroed value sums.
template <int kQueries>
inline void weigh(const AttentionCall& call, const Batch& batch, int first, int last) {
  Floats top[kQueries];
  Floats sum[kQueries];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) top[i] = broadcast(-__builtin_inff());
  for (int j = first; j < last; j += kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      top[i] = larger(load(batch.scores + i * batch.stride + j), top[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    const float largest_score = max_of(top[i]);
    batch.queries[i].partial[0] = largest_score;
    top[i] = broadcast(largest_score);
    sum[i] = zero_floats();
  }
  for (int j = first; j < last; j += kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      float* scores = batch.scores + i * batch.stride + j;
      const Floats weights = power_of_two(subtract(load(scores), top[i]));
      store(scores, weights);
      sum[i] = add(sum[i], weights);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    float* partial = batch.queries[i].partial;
    partial[1] = sum_of(sum[i]);
    for (int d = 0; d < call.padded_dim; d += kLanes) {
      store(partial + kPartialHead + d, zero_floats());
    }
  }
}

/// The scores of what each query sees, capped.
inline void cap_scores(const AttentionCall& call) {
  for (int i = 0; i < call.query_count; ++i) {
    const AttentionQuery& query = call.queries[i];
    float* scores = call.scores + static_cast<std::ptrdiff_t>(i) * kAttentionBlock;
    soft_cap_row(scores + query.begin, call.soft_cap, query.end - query.begin,
                 scores + query.begin);
  }
}

/// weigh() for all queries, those of one range a few at a time.
inline void weigh_all(const AttentionCall& call) {
  for (int i = 0; i < call.query_count;) {
    const AttentionQuery& query = call.queries[i];
    const int first = query.begin / kLanes * kLanes;
    const int last = (query.end + kLanes - 1) / kLanes * kLanes;
    const Batch batch = batch_of(call, i, 0, 0);
    int same = 0;
    for (; same < kWeighBatch && i + same < call.query_count; ++same) {
      const AttentionQuery& other = call.queries[i + same];
      if (other.begin != query.begin || other.end != query.end) break;
      float* scores = batch.scores + same * batch.stride;
      for (int j = first; j < query.begin; ++j) scores[j] = -__builtin_inff();
      for (int j = query.end; j < last; ++j) scores[j] = -__builtin_inff();
    }
    if (same == kWeighBatch) {
      weigh<kWeighBatch>(call, batch, first, last);
      i += kWeighBatch;
    } else {
      weigh<1>(call, batch, first, last);
      ++i;
    }
  }
}

/// Values of slots [begin, end) of positions, as far as they lie in the page that starts at
/// `start`.
template <Form kForm, bool kKeep = false>
void add_range(const AttentionCall& call, int first, int count, int start, int begin, int end,
               const std::byte* values, Ahead& ahead) {
  begin = slot_in_page(begin, start);
  end = slot_in_page(end, start);
  if (begin >= end) return;
  const std::ptrdiff_t row_bytes = static_cast<std::ptrdiff_t>(call.padded_dim) * bytes_of(kForm);
  add_values<kForm, kKeep>(call, batch_of(call, first, count, start + begin),
                           values + begin * row_bytes, end - begin,
                           kKeep ? call.floats + begin * call.padded_dim : nullptr, ahead);
}

/// For queries from `first` on. What all queries of a batch see is added for them together, what
/// lies before and behind singly.
template <Form kForm>
void add_batches(const AttentionCall& call, int first, int start, const std::byte* values,
                 Ahead& ahead) {
  for (int i = first; i < call.query_count; i += kQueryBatch) {
    const int count = lesser(kQueryBatch, call.query_count - i);
    const AttentionQuery* queries = call.queries + i;
    if (call.uniform) {
      add_range<kForm>(call, i, count, start, queries[0].begin, paged_end(queries[0]), values,
                       ahead);
      continue;
    }
    const Reach reach = reach_of({queries, count, nullptr, 0});
    const int common_end = greater(reach.common_begin, reach.common_end);
    for (int j = 0; j < count; ++j) {
      add_range<kForm>(call, i + j, 1, start, queries[j].begin,
                       lesser(reach.common_begin, paged_end(queries[j])), values, ahead);
    }
    add_range<kForm>(call, i, count, start, reach.common_begin, reach.common_end, values, ahead);
    for (int j = 0; j < count; ++j) {
      add_range<kForm>(call, i + j, 1, start, common_end, paged_end(queries[j]), values, ahead);
    }
  }
}

template <Form kForm>
void add_page(const AttentionCall& call, const Reach& reach, int page) {
  const int start = page * kPageSlots;
  if (reach.begin >= start + kPageSlots || reach.end <= start) return;
  const std::byte* values = page_of(call, call.page_ids[page]) + call.value_offset;
  Ahead ahead = ahead_of(call, page, call.value_offset,
                         static_cast<std::size_t>(kPageSlots * call.padded_dim * bytes_of(kForm)));
  if (call.floats == nullptr) return add_batches<kForm>(call, 0, start, values, ahead);
  const int first = call.uniform ? kQueryBatch : 0;
  if (call.uniform) {
    add_range<kForm, true>(call, 0, kQueryBatch, start, reach.begin, reach.end, values, ahead);
  } else {
    values_to_floats<kForm>(call, values, slot_in_page(reach.end, start));
  }
  add_batches<Form::page>(call, first, start, reinterpret_cast<const std::byte*>(call.floats),
                          ahead);
}

template <Form kForm>
void add_extra(const AttentionCall& call, const Batch& batch) {
  Ahead none{};
  const AttentionQuery& row = batch.queries[0];
  for (int j = greater(row.begin, row.contiguous); j < row.end; ++j) {
    const std::int32_t slot = row.extra[j - row.contiguous];
    const std::ptrdiff_t offset = slot % kPageSlots;
    const std::byte* values = page_of(call, slot / kPageSlots) + call.value_offset +
                              offset * call.padded_dim * bytes_of(kForm);
    add_values<kForm>(call, {batch.queries, batch.count, batch.scores + j, batch.stride}, values, 1,
                      nullptr, none);
  }
}

/// Calls function(batch) for the queries of each row, a few at a time.
template <typename Function>
void for_rows(const AttentionCall& call, const Function& function) {
  for (int row = 0; row < call.query_count; row += call.heads) {
    if (call.queries[row].end <= call.queries[row].contiguous) continue;
    for (int i = row; i < row + call.heads; i += kQueryBatch) {
      function(batch_of(call, i, lesser(kQueryBatch, row + call.heads - i), 0));
    }
  }
}

template <Form kForm>
void attend_block(const AttentionCall& call) {
  constexpr int kPages = kAttentionBlock / kPageSlots;
  const Batch all = batch_of(call, 0, call.uniform ? 1 : call.query_count, 0);
  const Reach reach = reach_of(all);
  for (int page = 0; page < kPages; ++page) score_page<kForm>(call, reach, page);
  for_rows(call, [&](const Batch& batch) {
    score_extra(call, batch, key_block_bytes<kForm>(call.dim),
                [&](const Batch& part, const std::byte* keys) {
                  Ahead none{};
                  score<kForm>(call, part, keys, 1, none);
                });
  });
  if (call.soft_cap > 0) cap_scores(call);
  weigh_all(call);
  for (int page = 0; page < kPages; ++page) add_page<kForm>(call, reach, page);
  for_rows(call, [&](const Batch& batch) { add_extra<kForm>(call, batch); });
}

inline void attend(const AttentionCall& call) {
  if (call.half) {
    attend_block<Form::f16>(call);
  } else {
    attend_block<Form::f32>(call);
  }
}

}  // namespace
}  // namespace talon::cpu
