#include "draft/block/block_network.h"

#include <algorithm>

#include "core/error.h"
#include "draft/head/sinks.h"

namespace talon {
namespace {

constexpr int kLeastBlockRows = 128;  // of a pass: how many rows of a prompt are taken in at once
enum BlockPass { kCommittedRows, kWholeBlock };  // ReplayKey::variant

LayerPlan block_plan_of(const BlockConfig& config) {
  LayerPlan plan;
  plan.heads = config.heads;
  plan.kv_heads = config.kv_heads;
  plan.head_dim = config.head_dim;
  plan.intermediate = config.intermediate;
  plan.norm_epsilon = config.norm_epsilon;
  plan.rough = true;
  plan.activation = config.activation;
  return plan;
}

/// The last keys that a row sees are those of the block.
LayerPlan windowed_plan(LayerPlan plan, const PairWindow& window, int block) {
  if (window.newest > 0) plan.window = window.newest + block + window.sinks;
  return plan;
}

/// The same rows where each sees itself alone: what is attended to does not matter.
AttentionLayout seeing_themselves(const AttentionLayout& layout) {
  AttentionLayout alone;
  alone.pages = layout.pages;
  for (AttentionRow row : layout.rows) {
    row.visible = 1;
    row.contiguous = 0;
    row.extra_begin = static_cast<std::int32_t>(alone.extra.size());
    alone.extra.push_back(row.slot);
    alone.rows.push_back(row);
  }
  return alone;
}

}  // namespace

BlockNetwork::BlockNetwork(const BlockWeights& weights, int block, int positions,
                           const PairWindow& window)
    : weights_(weights),
      config_(weights.config),
      backend_(*weights.backend),
      block_(block),
      max_rows_(std::max(kLeastBlockRows, block)),
      window_(window),
      plan_(block_plan_of(weights.config)),
      full_plan_(windowed_plan(plan_, window, block)),
      runner_(backend_, {&plan_, 1}, weights.config.hidden, max_rows_),
      rope_(backend_, weights.config.rope,
            turning_columns(weights.config.rope, weights.config.head_dim), positions + block),
      tokens_(backend_, max_rows_),
      guessing_(backend_, max_rows_),
      features_(backend_.allocate(max_rows_, config_.feature_width)),
      context_(backend_.allocate(max_rows_, config_.hidden)),
      query_(backend_.allocate(max_rows_, config_.heads * config_.head_dim)),
      keys_(backend_.allocate(max_rows_, config_.kv_heads * config_.head_dim)),
      values_(backend_.allocate(max_rows_, config_.kv_heads * config_.head_dim)),
      seen_(backend_.allocate(max_rows_, config_.heads * config_.head_dim)),
      residual_(backend_.allocate(max_rows_, config_.hidden)) {
  expects(block > config_.first_guess() && block <= config_.block, "a block within the head's");
}

void BlockNetwork::forward(const HeadPass& pass) {
  const int rows = static_cast<int>(pass.tokens.size());
  expects(rows >= 1 && rows <= max_rows_, "at most max_rows rows");
  backend_.copy(pass.features, features_.rows(rows));
  const AttentionLayout alone = seeing_themselves(*pass.layout);
  const auto layout = backend_.prepare(alone);
  const View rope = rope_.reach(layout->positions);
  backend_.replay({replay_owner_, rows, kCommittedRows},
                  [&] { write_cache(*pass.cache, *layout, rope); });
}

/// The queries of committed rows are zeros, and nobody reads what they see.
void BlockNetwork::write_cache(KvStore& cache, const PreparedLayout& layout, const View& rope) {
  const int rows = layout.rows;
  const View context = context_.rows(rows);
  const Projection fc[] = {{weights_.fc.get(), context}};
  backend_.linear({.input = features_.rows(rows), .outputs = fc, .rough = true});
  backend_.rms_norm(context, weights_.context_norm.view(), config_.norm_epsilon, context);
  for (int i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    const View k = keys_.rows(rows), v = values_.rows(rows);
    const Projection kv[] = {{layer.k.get(), k, layer.k_bias.view()},
                             {layer.v.get(), v, layer.v_bias.view()}};
    backend_.linear({.input = context, .outputs = kv, .rough = true});
    backend_.attention({.q = query_.rows(rows),
                        .k = k,
                        .v = v,
                        .out = seen_.rows(rows),
                        .cache = &cache,
                        .layer = i,
                        .layout = &layout,
                        .rope = rope,
                        .q_norm = layer.q_norm.view(),
                        .k_norm = layer.k_norm.view(),
                        .norm_epsilon = config_.norm_epsilon,
                        .scale = 1});
  }
}

/// Row j of a block stands j places after the root. A layer that slides sees the newest `window`
/// committed rows, which are listed one by one.
AttentionLayout BlockNetwork::lay_out(std::span<const BlockRoot> roots, bool slides) const {
  AttentionLayout layout;
  for (const BlockRoot& root : roots) {
    const KvSequence& cache = root.state->cache;
    const int length = cache.length();
    const int listed = slides ? std::min(config_.window, length) : 0;
    const auto first = static_cast<std::int32_t>(layout.extra.size());
    for (int position = length - listed; position < length; ++position) {
      const PageId page = cache.pages()[static_cast<std::size_t>(position / kPageRows)];
      layout.extra.push_back(page * kPageRows + position % kPageRows);
    }
    for (int j = 0; j < block_; ++j) layout.extra.push_back(cache.slot(j));
    const int contiguous = slides ? 0 : length;
    for (int j = 0; j < block_; ++j) {
      const bool causal = config_.causal || (slides && config_.causal_slides);
      layout.rows.push_back({.sequence = static_cast<std::int32_t>(layout.pages.size()),
                             .position = length + j,
                             .visible = contiguous + listed + (causal ? j + 1 : block_),
                             .slot = cache.slot(j),
                             .contiguous = contiguous,
                             .extra_begin = first});
    }
    layout.pages.push_back(cache.pages());
  }
  return layout;
}

void BlockNetwork::guess(std::span<const BlockRoot> roots, KvStore& cache, const View& out) {
  const int rows = static_cast<int>(roots.size()) * block_;
  expects(rows >= 1 && rows <= max_rows_, "at most max_rows rows");
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> guessing;
  for (const BlockRoot& root : roots) {
    for (int j = 0; j < block_; ++j) {
      if (j >= config_.first_guess()) guessing.push_back(static_cast<std::int32_t>(tokens.size()));
      tokens.push_back(j == 0 ? root.token : config_.mask_token);
    }
  }
  AttentionLayout whole = lay_out(roots, false);
  if (window_.newest > 0 && window_.sinks > 0) {
    list_sinks(whole, window_.sinks, window_.newest + block_);
  }
  const AttentionLayout windowed = config_.window > 0 ? lay_out(roots, true) : AttentionLayout{};
  const auto all = backend_.prepare(whole);
  const auto newest = config_.window > 0 ? backend_.prepare(windowed) : nullptr;
  const View rope = rope_.reach(all->positions);
  const Indices ids = tokens_.put(tokens);
  backend_.replay({replay_owner_, rows, kWholeBlock},
                  [&] { run_block(ids, cache, *all, newest.get(), rope); });
  backend_.gather_rows(residual_.rows(rows), guessing_.put(guessing), out);
}

/// newest: what layers see that slide by themselves.
void BlockNetwork::run_block(const Indices& ids, KvStore& cache, const PreparedLayout& all,
                             const PreparedLayout* newest, const View& rope) {
  const View residual = residual_.rows(ids.count);
  backend_.embed(*weights_.embedding, ids, residual);
  if (weights_.embedding_scale != 1) backend_.scale(residual, weights_.embedding_scale);
  for (int i = 0; i < config_.layers; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool slides = config_.slides[index];
    const BlockRows block{&cache, i, slides ? newest : &all, rope};
    runner_.run(slides ? plan_ : full_plan_, weights_.layers[index], block, residual);
  }
  backend_.rms_norm(residual, weights_.output_norm.view(), config_.norm_epsilon, residual);
}

}  // namespace talon
