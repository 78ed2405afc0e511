#include <algorithm>

#include "backend/attention_shapes.h"
#include "backend/cpu/cpu_attention_call.h"
#include "core/error.h"

namespace talon::cpu {
namespace {

constexpr int kGroupQueries = 32;
constexpr int kLongGroupQueries = 64;  // where reading keys and values costs more than a few rows
constexpr int kLongBlocks = 8;         // from so many on, spreading blocks costs little
constexpr int kReadCost = 2;           // of a block's keys and values, in rows
constexpr std::size_t kDirectQueries = 8;  // up to so many read keys and values as stored
constexpr int kBlockPages = kAttentionBlock / kPageRows;
constexpr std::size_t kMostPartialFloats = std::size_t{4} << 20;

/// Items of one worker.
struct Share {
  std::size_t begin;
  std::size_t end;
};
Share share_of(std::size_t items, std::size_t index, std::size_t workers) {
  return {items * index / workers, items * (index + 1) / workers};
}

}  // namespace

Attention::Range Attention::visible(const AttentionRow& row, const AttentionArgs& args) {
  return {first_visible(args, row), row.visible};
}

Attention::Attention(const Kernels& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), workers_(static_cast<std::size_t>(pool.threads())) {}

void Attention::group_rows(const AttentionArgs& args) {
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const KvWidth width = args.cache->shape.width(args.layer);
  const int heads = args.q.cols / width.key_cols();
  int most_blocks = 0;
  for (const AttentionRow& row : layout.rows) {
    const Range range = visible(row, args);
    most_blocks = std::max(most_blocks, (range.end - range.begin) / kAttentionBlock);
  }
  // Over short contexts groups of rows for two items or more of each worker, over long ones as many
  // rows as possible for each read of the cache.
  const int wanted = (2 * pool_.active() + width.kv_heads - 1) / width.kv_heads;
  const int most =
      most_blocks >= kLongBlocks
          ? std::max(kLongGroupQueries / heads, 1)
          : std::clamp(std::min(kGroupQueries / heads, (args.q.rows + wanted - 1) / wanted), 1, 8);
  groups_.clear();
  for (int row = 0; row < args.q.rows; ++row) {
    const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
    const Range range = visible(place, args);
    const int first_block = range.begin / kAttentionBlock;
    const int end_block = (range.end + kAttentionBlock - 1) / kAttentionBlock;
    const bool joins =
        !groups_.empty() && groups_.back().count < most &&
        layout.rows[static_cast<std::size_t>(groups_.back().first)].sequence == place.sequence;
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
    worker.stored.reserve<std::uint16_t>(static_cast<std::size_t>(call.dim + call.value_dim));
    worker.scores.reserve<float>(queries * kAttentionBlock);
    worker.floats.reserve<float>(
        static_cast<std::size_t>(kPageRows * std::max(call.dim, call.place.padded_dim)));
    worker.partials.reserve<float>(2 * queries * static_cast<std::size_t>(call.partial_size));
    worker.queries.reserve(queries);
  }
}

std::size_t Attention::cost_of(const RowGroup& group, int kv_heads) const {
  return static_cast<std::size_t>(kv_heads * (group.end_block - group.first_block)) *
         static_cast<std::size_t>(group.count + kReadCost);
}

/// Where the places before it have cost `cost`.
Attention::Place Attention::place_at(std::size_t cost, int kv_heads) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const RowGroup& group = groups_[i];
    if (cost < cost_of(group, kv_heads)) {
      const int index = static_cast<int>(cost / static_cast<std::size_t>(group.count + kReadCost));
      const int blocks = group.end_block - group.first_block;
      return {i, index / blocks, group.first_block + index % blocks};
    }
    cost -= cost_of(group, kv_heads);
  }
  return {groups_.size(), 0, 0};
}

Attention::Place Attention::share_begin(const Call& call, std::size_t worker) const {
  std::size_t cost = 0;
  for (const RowGroup& group : groups_) cost += cost_of(group, call.kv_heads);
  return place_at(share_of(cost, worker, call.workers).begin, call.kv_heads);
}

/// The pages that follow a place in a run of blocks, or in the next KV head.
void Attention::look_ahead(const Call& call, const Place& place, int run_end,
                           AttentionCall& kernel) const {
  const RowGroup& group = groups_[place.group];
  const bool same_head = place.block + 1 < run_end;
  if (!same_head && (run_end < group.end_block || place.kv_head + 1 == call.kv_heads)) {
    return;
  }
  const auto pages = call.pages_of(group.first);
  const std::byte* base =
      call.cache.block(call.args.layer, same_head ? place.kv_head : place.kv_head + 1);
  const int block = same_head ? place.block + 1 : group.first_block;
  for (int i = 0; i < kBlockPages; ++i) {
    const auto page = static_cast<std::size_t>(block * kBlockPages + i);
    if (page >= pages.size()) return;
    kernel.next[i] = base + static_cast<std::size_t>(pages[page]) * call.cache.page_stride;
  }
}

/// The query heads of the rows of a group that see some of a block. The partials of a row that
/// begins in this run of blocks go to the worker's totals, or behind them, to be joined; the others
/// are left in call.partials. Returns whether all see the same positions in pages.
bool Attention::list_queries(const Call& call, const Place& place, int run_begin,
                             Worker& worker) const {
  const AttentionLayout& layout = call.layout;
  const RowGroup& group = groups_[place.group];
  const int start = place.block * kAttentionBlock;
  float* totals = worker.partials.reserve<float>(0);
  bool uniform = true;
  worker.queries.clear();
  for (int i = 0; i < group.count; ++i) {
    const int row = group.first + i;
    const AttentionRow& seen = layout.rows[static_cast<std::size_t>(row)];
    const Range range = visible(seen, call.args);
    const int begin = std::max(range.begin - start, 0);
    const int end = std::min(range.end - start, kAttentionBlock);
    if (begin >= end) continue;
    const int first_block = range.begin / kAttentionBlock;
    const int local = first_block == place.block ? i : group.count + i;
    float* partial = first_block < run_begin
                         ? call.partial(row, place.kv_head, place.block)
                         : totals + static_cast<std::size_t>(local) * call.row_floats();
    const float* q = call.args.q.row(row) + place.kv_head * call.heads * call.dim;
    for (int h = 0; h < call.heads; ++h, q += call.dim, partial += call.partial_size) {
      AttentionQuery& query = worker.queries.emplace_back();
      query.q = q;
      query.rounded = call.rounded_query(row, place.kv_head * call.heads + h);
      query.partial = partial;
      query.begin = begin;
      query.end = end;
      query.contiguous = seen.contiguous - start;
      query.extra = layout.extra.data() + seen.extra_begin;
    }
    const AttentionQuery& first = worker.queries.front();
    uniform = uniform && begin == first.begin &&
              std::min(end, seen.contiguous - start) == std::min(first.end, first.contiguous);
  }
  return uniform;
}

void Attention::attend_block(const Call& call, const Place& place, Range run,
                             Worker& worker) const {
  AttentionCall kernel{};
  kernel.uniform = list_queries(call, place, run.begin, worker);
  kernel.pages = call.cache.block(call.args.layer, place.kv_head);
  kernel.page_stride = call.cache.page_stride;
  kernel.value_offset = call.place.value_offset;
  kernel.page_ids = call.pages_of(groups_[place.group].first).data() + place.block * kBlockPages;
  kernel.half = call.cache.shape.type == KvType::f16;
  kernel.dim = call.dim;
  kernel.padded_dim = call.place.padded_dim;
  kernel.soft_cap = call.args.soft_cap * kLog2E;
  kernel.queries = worker.queries.data();
  kernel.query_count = static_cast<int>(worker.queries.size());
  kernel.heads = call.heads;
  kernel.scores = worker.scores.reserve<float>(0);
  kernel.floats =
      worker.queries.size() > kDirectQueries ? worker.floats.reserve<float>(0) : nullptr;
  look_ahead(call, place, run.end, kernel);
  if (call.rounded != nullptr) {
    kernels_.attend_pairs(kernel);
  } else {
    kernels_.attend(kernel);
  }
}

/// Joins the partials of a block to the totals of the rows that have begun before it in this run.
void Attention::join_block(const Call& call, const Place& place, int run_begin,
                           Worker& worker) const {
  const RowGroup& group = groups_[place.group];
  float* totals = worker.partials.reserve<float>(0);
  const auto joins = [&](int i) {
    const Range range = call.blocks_of(group.first + i);
    return range.begin >= run_begin && range.begin < place.block && place.block < range.end;
  };
  for (int first = 0; first < group.count; ++first) {
    int end = first;
    while (end < group.count && joins(end)) ++end;
    if (end == first) continue;
    float* total = totals + static_cast<std::size_t>(first) * call.row_floats();
    kernels_.join(total, total + static_cast<std::size_t>(group.count) * call.row_floats(),
                  (end - first) * call.heads, call.partial_size);
    first = end;
  }
}

/// Blocks from `begin` to `end_block`, joined as they come.
void Attention::attend_run(const Call& call, const Place& begin, int end_block,
                           Worker& worker) const {
  const RowGroup& group = groups_[begin.group];
  for (Place place = begin; place.block < end_block; ++place.block) {
    attend_block(call, place, {begin.block, end_block}, worker);
    join_block(call, place, begin.block, worker);
  }
  float* totals = worker.partials.reserve<float>(0);
  for (int i = 0; i < group.count; ++i, totals += call.row_floats()) {
    const int row = group.first + i;
    const Range range = call.blocks_of(row);
    if (range.begin < begin.block || range.begin >= end_block) continue;
    if (range.end <= end_block) {
      finish(call, totals, row, begin.kv_head);
    } else {
      std::copy_n(totals, call.row_floats(), call.partial(row, begin.kv_head, range.begin));
    }
  }
}

void Attention::attend_share(const Call& call, std::size_t index, Worker& worker) const {
  Place place = share_begin(call, index);
  const Place end = share_begin(call, index + 1);
  while (place != end) {
    const RowGroup& group = groups_[place.group];
    const bool cut = place.group == end.group && place.kv_head == end.kv_head;
    attend_run(call, place, cut ? end.block : group.end_block, worker);
    if (cut) return;
    if (++place.kv_head == call.kv_heads) {
      place.kv_head = 0;
      ++place.group;
    }
    place.block = place.group < groups_.size() ? groups_[place.group].first_block : 0;
  }
}

/// Finishes rows whose blocks were cut first where the share of worker `cut` begins.
void Attention::join_cut(const Call& call, std::size_t cut, std::size_t index) const {
  const Place place = share_begin(call, cut);
  if (place.group == groups_.size()) return;
  int after = 0;  // where the cut before this one was
  for (std::size_t other = 1; other < cut; ++other) {
    const Place earlier = share_begin(call, other);
    if (earlier.group == place.group && earlier.kv_head == place.kv_head) after = earlier.block;
  }
  const RowGroup& group = groups_[place.group];
  const Share rows = share_of(static_cast<std::size_t>(group.count), index, call.workers);
  for (std::size_t i = rows.begin; i < rows.end; ++i) {
    const int row = group.first + static_cast<int>(i);
    const Range range = call.blocks_of(row);
    if (range.begin < after || range.begin >= place.block || range.end <= place.block) continue;
    float* totals = call.partial(row, place.kv_head, range.begin);
    for (int block = place.block; block < range.end; ++block) {
      kernels_.join(totals, call.partial(row, place.kv_head, block), call.heads, call.partial_size);
    }
    finish(call, totals, row, place.kv_head);
  }
}

void Attention::finish(const Call& call, float* totals, int row, int kv_head) const {
  if (call.sinks) {
    kernels_.join(totals, call.sinks + static_cast<std::size_t>(kv_head) * call.row_floats(),
                  call.heads, call.partial_size);
  }
  float* out = call.args.out.row(row) + kv_head * call.heads * call.value_dim;
  for (int h = 0; h < call.heads; ++h, out += call.value_dim, totals += call.partial_size) {
    kernels_.finish(totals, call.value_dim, out);
  }
}

void Attention::run(const AttentionArgs& args) {
  check_attention(args);
  if (args.q.rows == 0) return;
  auto& cache = static_cast<Cache&>(*args.cache);
  const Cache::Layer& place_of_layer = cache.layer(args.layer);
  const KvWidth& width = place_of_layer.width;
  const auto kv_heads = static_cast<std::size_t>(width.kv_heads);
  const auto rows = static_cast<std::size_t>(args.q.rows);
  group_rows(args);
  norm_rows(args);

  int most_blocks = 0;
  for (const RowGroup& group : groups_) {
    most_blocks = std::max(most_blocks, group.end_block - group.first_block);
  }
  const auto threads = static_cast<std::size_t>(pool_.active());
  Call call{args,
            HostLayout::of(*args.layout),
            cache,
            place_of_layer,
            threads,
            width.kv_heads,
            args.q.cols / width.key_cols(),
            width.key_dim,
            width.value_dim,
            kPartialHead + place_of_layer.padded_dim,
            nullptr,
            nullptr,
            nullptr,
            kernels_.rounded_bytes};
  if (cache.shape.type == KvType::bf16) {
    call.rounded = rounded_.reserve<std::byte>(
        rows * static_cast<std::size_t>(args.q.cols * kernels_.rounded_bytes));
  }
  if (args.sinks) {
    fill_sinks(call);
    call.sinks = sinks_.reserve<float>(0);
  }
  const std::size_t whole_items = groups_.size() * kv_heads;
  const std::size_t partial_floats =
      static_cast<std::size_t>(most_blocks) * rows * kv_heads * call.row_floats();
  const bool uneven = whole_items % threads != 0 || most_blocks >= kLongBlocks;
  const bool spread = threads > 1 && most_blocks > 1 && whole_items < 4 * threads && uneven &&
                      partial_floats <= kMostPartialFloats;
  if (spread) call.partials = partials_.reserve<float>(partial_floats);
  reserve(call);

  pool_.run([&](int worker_index) {
    const auto index = static_cast<std::size_t>(worker_index);
    Worker& worker = workers_[index];
    // Keys of neighbouring positions share lines: each worker writes a run of rows of few heads.
    const Share mine = share_of(rows * kv_heads, index, threads);
    for (std::size_t item = mine.begin; item < mine.end; ++item) {
      rotate_and_store(call, static_cast<int>(item % rows), static_cast<int>(item / rows), worker);
    }
    pool_.barrier();
    if (spread) {
      attend_share(call, index, worker);
      pool_.barrier();
      for (std::size_t cut = 1; cut < threads; ++cut) join_cut(call, cut, index);
      return;
    }
    // Few items are shared out beforehand, so that a worker finds most queries in its cache.
    const auto attend = [&](std::size_t item) {
      const std::size_t group = item % groups_.size();
      const Place begin{group, static_cast<int>(item / groups_.size()), groups_[group].first_block};
      attend_run(call, begin, groups_[group].end_block, worker);
    };
    if (whole_items < 4 * threads) {
      const Share whole = share_of(whole_items, index, threads);
      for (std::size_t item = whole.begin; item < whole.end; ++item) attend(item);
    } else {
      for (std::size_t item; (item = pool_.next(1)) < whole_items;) attend(item);
    }
  });
}

}  // namespace talon::cpu
