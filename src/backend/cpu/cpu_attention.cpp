#include "backend/cpu/cpu_attention.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace talon::cpu {
namespace {

constexpr int kGroupQueries = 32;
constexpr std::size_t kLongBlocks = 8;  // from so many on, spreading blocks costs little
constexpr std::size_t kMostPartialFloats = std::size_t{4} << 20;

float* row_of(const View& view, int row) {
  return view.data + static_cast<std::ptrdiff_t>(row) * view.stride;
}

struct Range {
  int begin;
  int end;
};

/// Items of one worker.
struct Share {
  std::size_t begin;
  std::size_t end;
};

Range visible(const AttentionRow& row, int window) {
  const int end = row.position + 1;
  return {window > 0 ? std::max(0, end - window) : 0, end};
}

void check(const AttentionArgs& args) {
  expects(args.cache != nullptr && args.layout != nullptr, "attention() has a cache and a layout");
  const KvShape& shape = args.cache->shape;
  expects(args.layout->rows.size() == static_cast<std::size_t>(args.q.rows),
          "attention(): a layout row for every row");
  expects(args.k.cols == shape.kv_heads * shape.head_dim && args.v.cols == args.k.cols,
          "attention(): keys and values as wide as the cache");
  expects(args.q.cols % args.k.cols == 0 && args.out.cols == args.q.cols,
          "attention(): query heads are a multiple of the cache's");
  expects(args.layer >= 0 && args.layer < shape.layers, "attention(): a layer of the cache");
  for (const AttentionRow& row : args.layout->rows) {
    expects(row.position >= 0 && row.position < args.rope.rows,
            "attention(): a position of the rope table");
  }
}

}  // namespace

/// What the items of one run() share.
struct Attention::Call {
  const AttentionArgs& args;
  Cache& cache;
  int heads;  // query heads of one KV head
  int dim;
  std::size_t partial_size;  // floats
  int blocks;                // partials per row and head in `partials`
  float* partials;           // null: not spread

  float* partial(int row, int head, int block) const {
    const auto all_heads = static_cast<std::size_t>(heads * cache.shape.kv_heads);
    const std::size_t index =
        (static_cast<std::size_t>(row) * all_heads + static_cast<std::size_t>(head)) *
            static_cast<std::size_t>(blocks) +
        static_cast<std::size_t>(block);
    return partials + index * partial_size;
  }
  Range blocks_of(int row) const {
    const Range range = visible(args.layout->rows[static_cast<std::size_t>(row)], args.window);
    return {range.begin / kAttentionBlock, (range.end + kAttentionBlock - 1) / kAttentionBlock};
  }
};

Attention::Attention(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), workers_(static_cast<std::size_t>(pool.threads())) {}

void Attention::group_rows(const AttentionArgs& args) {
  const int heads = args.q.cols / args.k.cols;
  // Groups of rows for two items or more of each worker.
  const int wanted =
      (2 * pool_.threads() + args.cache->shape.kv_heads - 1) / args.cache->shape.kv_heads;
  const int most =
      std::clamp(std::min(kGroupQueries / heads, (args.q.rows + wanted - 1) / wanted), 1, 8);
  groups_.clear();
  for (int row = 0; row < args.q.rows; ++row) {
    const AttentionRow& place = args.layout->rows[static_cast<std::size_t>(row)];
    const Range range = visible(place, args.window);
    const int first_block = range.begin / kAttentionBlock;
    const int end_block = (range.end + kAttentionBlock - 1) / kAttentionBlock;
    const bool joins = !groups_.empty() && groups_.back().count < most &&
                       args.layout->rows[static_cast<std::size_t>(groups_.back().first)].sequence ==
                           place.sequence;
    if (!joins) groups_.push_back({row, 0, first_block, end_block});
    RowGroup& group = groups_.back();
    ++group.count;
    group.first_block = std::min(group.first_block, first_block);
    group.end_block = std::max(group.end_block, end_block);
  }
}

/// All working memory of a run: between a region's barriers nothing may throw.
void Attention::reserve(const Call& call) {
  int rows = 0;
  for (const RowGroup& group : groups_) rows = std::max(rows, group.count);
  const auto queries = static_cast<std::size_t>(rows * call.heads);
  for (Worker& worker : workers_) {
    worker.stored.reserve<std::uint16_t>(2 * static_cast<std::size_t>(call.dim));
    worker.scores.reserve<float>(queries * kAttentionBlock);
    worker.partials.reserve<float>(2 * queries * call.partial_size);
    worker.queries.reserve(queries);
  }
}

/// The query heads of one KV head, and its key and value, of one row.
void Attention::rotate_and_store(const Call& call, int row, int kv_head, Worker& worker) const {
  const AttentionArgs& args = call.args;
  const AttentionRow& place = args.layout->rows[static_cast<std::size_t>(row)];
  const float* cos_sin = row_of(args.rope, place.position);
  const int dim = call.dim;
  for (int i = 0; i < call.heads; ++i) {
    float* q = row_of(args.q, row) + (kv_head * call.heads + i) * dim;
    if (args.q_norm) kernels_.rms_norm(q, args.q_norm.data, args.norm_epsilon, dim, q);
    kernels_.rotate(q, cos_sin, args.scale, dim);
  }
  float* k = row_of(args.k, row) + kv_head * dim;
  const float* v = row_of(args.v, row) + kv_head * dim;
  if (args.k_norm) kernels_.rms_norm(k, args.k_norm.data, args.norm_epsilon, dim, k);
  kernels_.rotate(k, cos_sin, 1.0F, dim);
  if (call.cache.shape.type == KvType::f32) {
    call.cache.write(args.layer, kv_head, place.slot, reinterpret_cast<const std::byte*>(k),
                     reinterpret_cast<const std::byte*>(v));
    return;
  }
  auto* stored = worker.stored.reserve<std::uint16_t>(2 * static_cast<std::size_t>(dim));
  kernels_.store_half(k, dim, stored);
  kernels_.store_half(v, dim, stored + dim);
  call.cache.write(args.layer, kv_head, place.slot, reinterpret_cast<const std::byte*>(stored),
                   reinterpret_cast<const std::byte*>(stored + dim));
}

/// Partials of one block for the rows of a group that see some of it: into call.partials, else into
/// the worker's second half.
void Attention::attend_block(const Call& call, const RowGroup& group, int kv_head, int block,
                             Worker& worker) const {
  const AttentionArgs& args = call.args;
  const AttentionLayout& layout = *args.layout;
  const int start = block * kAttentionBlock;
  const auto queries_in_group = static_cast<std::size_t>(group.count * call.heads);
  worker.queries.clear();
  for (int i = 0; i < group.count; ++i) {
    const int row = group.first + i;
    const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
    const Range range = visible(place, args.window);
    const int begin = std::max(range.begin - start, 0);
    const int end = std::min(range.end - start, kAttentionBlock);
    if (begin >= end) continue;
    for (int h = 0; h < call.heads; ++h) {
      const int head = kv_head * call.heads + h;
      const std::size_t local = queries_in_group + static_cast<std::size_t>(i * call.heads + h);
      AttentionQuery query{};
      query.q = row_of(args.q, row) + head * call.dim;
      query.partial = call.partials != nullptr
                          ? call.partial(row, head, block - call.blocks_of(row).begin)
                          : worker.partials.reserve<float>(0) + local * call.partial_size;
      query.begin = begin;
      query.end = end;
      query.contiguous = place.contiguous - start;
      query.extra = layout.extra.data() + place.extra_begin;
      worker.queries.push_back(query);
    }
  }
  const auto pages = layout.pages[static_cast<std::size_t>(
      layout.rows[static_cast<std::size_t>(group.first)].sequence)];
  AttentionCall kernel{};
  kernel.pages = call.cache.block(args.layer, kv_head);
  kernel.page_stride = call.cache.page_stride;
  kernel.value_offset = call.cache.value_offset;
  kernel.page_ids = pages.data() + start / kPageRows;
  kernel.half = call.cache.shape.type == KvType::f16;
  kernel.dim = call.dim;
  kernel.padded_dim = call.cache.padded_dim;
  kernel.queries = worker.queries.data();
  kernel.query_count = static_cast<int>(worker.queries.size());
  kernel.heads = call.heads;
  kernel.scores = worker.scores.reserve<float>(queries_in_group * kAttentionBlock);
  kernels_.attend(kernel);
}

/// All blocks of a row group, joined as they come.
void Attention::attend_whole(const Call& call, const RowGroup& group, int kv_head,
                             Worker& worker) const {
  const auto count = static_cast<std::size_t>(group.count * call.heads);
  float* totals = worker.partials.reserve<float>(2 * count * call.partial_size);
  const float* fresh = totals + count * call.partial_size;
  for (int block = group.first_block; block < group.end_block; ++block) {
    attend_block(call, group, kv_head, block, worker);
    for (int i = 0; i < group.count; ++i) {
      const Range range = call.blocks_of(group.first + i);
      if (block < range.begin || block >= range.end) continue;
      for (int h = 0; h < call.heads; ++h) {
        const std::size_t at = static_cast<std::size_t>(i * call.heads + h) * call.partial_size;
        if (block == range.begin) {
          std::copy_n(fresh + at, call.partial_size, totals + at);
        } else {
          kernels_.join(totals + at, fresh + at, call.cache.padded_dim);
        }
      }
    }
  }
  for (int i = 0; i < group.count; ++i) {
    for (int h = 0; h < call.heads; ++h) {
      kernels_.finish(
          totals + static_cast<std::size_t>(i * call.heads + h) * call.partial_size, call.dim,
          row_of(call.args.out, group.first + i) + (kv_head * call.heads + h) * call.dim);
    }
  }
}

void Attention::join(const Call& call, int row, int head) const {
  const Range blocks = call.blocks_of(row);
  float* total = call.partial(row, head, 0);
  for (int block = 1; block < blocks.end - blocks.begin; ++block) {
    kernels_.join(total, call.partial(row, head, block), call.cache.padded_dim);
  }
  kernels_.finish(total, call.dim, row_of(call.args.out, row) + head * call.dim);
}

void Attention::run(const AttentionArgs& args) {
  check(args);
  if (args.q.rows == 0) return;
  auto& cache = static_cast<Cache&>(*args.cache);
  const auto kv_heads = static_cast<std::size_t>(cache.shape.kv_heads);
  const int all_heads = args.q.cols / cache.shape.head_dim;
  const auto rows = static_cast<std::size_t>(args.q.rows);
  group_rows(args);

  std::size_t most_blocks = 0;
  for (const RowGroup& group : groups_) {
    most_blocks =
        std::max(most_blocks, static_cast<std::size_t>(group.end_block - group.first_block));
  }
  Call call{args,
            cache,
            args.q.cols / args.k.cols,
            cache.shape.head_dim,
            static_cast<std::size_t>(kPartialHead + cache.padded_dim),
            static_cast<int>(most_blocks),
            nullptr};
  const std::size_t whole_items = groups_.size() * kv_heads;
  const std::size_t partial_floats =
      rows * static_cast<std::size_t>(all_heads) * most_blocks * call.partial_size;
  const auto threads = static_cast<std::size_t>(pool_.threads());
  const bool uneven = whole_items % threads != 0 || most_blocks >= kLongBlocks;
  const bool spread = threads > 1 && most_blocks > 1 && whole_items < 4 * threads && uneven &&
                      partial_floats <= kMostPartialFloats;
  if (spread) call.partials = partials_.reserve<float>(partial_floats);
  reserve(call);

  const auto share_of = [threads](std::size_t items, int index) {
    const auto i = static_cast<std::size_t>(index);
    return Share{items * i / threads, items * (i + 1) / threads};
  };
  pool_.run([&](int index) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    // Keys of neighbouring positions share lines: each worker writes a run of rows of few heads.
    const Share mine = share_of(rows * kv_heads, index);
    for (std::size_t item = mine.begin; item < mine.end; ++item) {
      rotate_and_store(call, static_cast<int>(item % rows), static_cast<int>(item / rows), worker);
    }
    pool_.barrier();
    if (!spread) {
      // Few items are shared out beforehand, so that a worker finds most queries in its cache.
      const auto attend = [&](std::size_t item) {
        attend_whole(call, groups_[item % groups_.size()], static_cast<int>(item / groups_.size()),
                     worker);
      };
      if (whole_items < 4 * threads) {
        const Share whole = share_of(whole_items, index);
        for (std::size_t item = whole.begin; item < whole.end; ++item) attend(item);
      } else {
        for (std::size_t item; (item = pool_.next(1)) < whole_items;) attend(item);
      }
      return;
    }
    for (std::size_t item; (item = pool_.next(1)) < whole_items * most_blocks;) {
      const RowGroup& group = groups_[item / (kv_heads * most_blocks)];
      const int block = group.first_block + static_cast<int>(item / kv_heads % most_blocks);
      if (block >= group.end_block) continue;
      attend_block(call, group, static_cast<int>(item % kv_heads), block, worker);
    }
    pool_.barrier();
    const Share joins = share_of(rows * static_cast<std::size_t>(all_heads), index);
    for (std::size_t item = joins.begin; item < joins.end; ++item) {
      join(call, static_cast<int>(item) / all_heads, static_cast<int>(item) % all_heads);
    }
  });
}

}  // namespace talon::cpu
