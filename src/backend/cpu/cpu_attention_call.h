#pragma once

#include "backend/cpu/cpu_attention.h"
#include "backend/host_layout.h"

namespace talon::cpu {

inline constexpr float kLog2E = 1.442695041F;  // weights are powers of two

/// What the items of one run() share.
struct Attention::Call {
  const AttentionArgs& args;
  const AttentionLayout& layout;
  Cache& cache;
  const Cache::Layer& place;
  std::size_t workers;
  int kv_heads;
  int heads;  // query heads of one KV head
  int dim;    // of queries and keys
  int value_dim;
  int partial_size;    // floats
  float* partials;     // [block of a row][row][head]; null: no run of blocks is cut
  const float* sinks;  // a partial of every head, or null
  std::byte* rounded;  // [row][head][dim] as round() leaves it; null: the cache is not bf16
  int rounded_bytes;   // of a value

  /// Of one query head of a row.
  std::byte* rounded_query(int row, int head) const {
    if (rounded == nullptr) return nullptr;
    const auto index = static_cast<std::size_t>(row * heads * kv_heads + head);
    return rounded + index * static_cast<std::size_t>(dim * rounded_bytes);
  }

  /// Of all query heads of a KV head.
  float* partial(int row, int kv_head, int block) const {
    const std::size_t index = (static_cast<std::size_t>(block - blocks_of(row).begin) *
                                   static_cast<std::size_t>(args.q.rows) +
                               static_cast<std::size_t>(row)) *
                                  static_cast<std::size_t>(heads * kv_heads) +
                              static_cast<std::size_t>(kv_head * heads);
    return partials + index * static_cast<std::size_t>(partial_size);
  }
  std::span<const PageId> pages_of(int row) const {
    const auto sequence = layout.rows[static_cast<std::size_t>(row)].sequence;
    return layout.pages[static_cast<std::size_t>(sequence)];
  }
  std::size_t row_floats() const { return static_cast<std::size_t>(heads * partial_size); }
  Range blocks_of(int row) const {
    const Range range = visible(layout.rows[static_cast<std::size_t>(row)], args);
    return {range.begin / kAttentionBlock, (range.end + kAttentionBlock - 1) / kAttentionBlock};
  }
};

}  // namespace talon::cpu
