#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_cache.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// attention() of the CPU backend. Every row and head goes through its visible positions in blocks
/// of 128 (aligned to the sequence's positions); each block gives a partial result, and partials
/// are joined in order. So blocks may be spread over workers, or rows, without changing a bit.
class Attention {
 public:
  Attention(const Kernels& kernels, ThreadPool& pool);
  void run(const AttentionArgs& args);

 private:
  /// Consecutive rows of one sequence, which share the loads of keys and values.
  struct RowGroup {
    int first;
    int count;
    int first_block;  // of positions that any of its rows sees
    int end_block;
  };
  struct Worker {
    Scratch stored;  // one key and value in the cache's type
    Scratch scores;
    Scratch floats;    // keys or values of a page
    Scratch partials;  // of the queries of a row group: joined so far, then of one block
    std::vector<AttentionQuery> queries;
  };
  struct Range {
    int begin;
    int end;
  };
  static Range visible(const AttentionRow& row, const AttentionArgs& args);
  /// A block of positions for one row group and KV head: they are gone through in this order.
  struct Place {
    std::size_t group;
    int kv_head;
    int block;
    bool operator==(const Place&) const = default;
  };
  struct Call;

  void group_rows(const AttentionArgs& args);
  void reserve(const Call& call);
  std::size_t cost_of(const RowGroup& group, int kv_heads) const;
  Place place_at(std::size_t cost, int kv_heads) const;
  Place share_begin(const Call& call, std::size_t worker) const;
  void norm_rows(const AttentionArgs& args);
  void fill_sinks(const Call& call);
  void turn(const Call& call, float* head, const View& norm, int position, float factor) const;
  void rotate_and_store(const Call& call, int row, int kv_head, Worker& worker) const;
  void look_ahead(const Call& call, const Place& place, int run_end, AttentionCall& kernel) const;
  bool list_queries(const Call& call, const Place& place, int run_begin, Worker& worker) const;
  void attend_block(const Call& call, const Place& place, Range run, Worker& worker) const;
  void join_block(const Call& call, const Place& place, int run_begin, Worker& worker) const;
  void attend_run(const Call& call, const Place& begin, int end_block, Worker& worker) const;
  void attend_share(const Call& call, std::size_t index, Worker& worker) const;
  void join_cut(const Call& call, std::size_t cut, std::size_t index) const;
  void finish(const Call& call, float* totals, int row, int kv_head) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<RowGroup> groups_;
  std::vector<Worker> workers_;
  Scratch partials_;  // [row][head][block], when blocks are spread over workers
  Scratch sinks_;     // a partial of every head
  Scratch rounded_;   // all queries, of a bf16 cache
};

}  // namespace talon::cpu
