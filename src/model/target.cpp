#include "model/target.h"

#include <algorithm>

#include "backend/index_list.h"
#include "core/error.h"
#include "model/block.h"
#include "model/rope.h"
#include "model/row_layout.h"

namespace talon {

struct Target::State {
  State(const Model& model, KvCache& cache, int max_rows, std::vector<FeatureTap> taps);

  void check(std::span<const SequenceRows> batch) const;
  void run_layers(const View& x);
  void tap(int layer, const View& x);
  View compute_logits(std::span<const SequenceRows> batch, int rows, std::vector<int>& first_row);

  const Model& model;
  Backend& backend;
  KvCache& cache;
  int max_rows;
  std::vector<FeatureTap> taps;

  BlockPlan plan;
  BlockRunner block;
  RopeTable rope;
  Buffer residual, features;  // [max_rows, width]
  Buffer logit_rows, logits;  // as many rows as have been asked for at once
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> wanted;  // rows with logits
  IndexList token_list, wanted_list;
  AttentionLayout layout;
  std::unique_ptr<PreparedLayout> prepared;  // of the forward in flight
};

namespace {

BlockPlan plan_of(const ModelConfig& config) {
  return {.heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .intermediate = config.intermediate,
          .norm_epsilon = config.norm_epsilon,
          .window = config.sliding_window};
}

}  // namespace

Target::State::State(const Model& of, KvCache& kv, int most_rows,
                     std::vector<FeatureTap> wanted_taps)
    : model(of),
      backend(*of.backend),
      cache(kv),
      max_rows(most_rows),
      taps(std::move(wanted_taps)),
      plan(plan_of(of.config)),
      block(backend, plan, max_rows),
      rope(backend, of.config.rope, of.config.head_dim,
           std::min(of.config.context, kv.total_pages() * kPageRows)),
      token_list(backend),
      wanted_list(backend) {
  expects(max_rows >= 1);
  const ModelConfig& c = model.config;
  for (const FeatureTap& wanted_tap : taps) {
    expects(wanted_tap.layer >= FeatureTap::kFinalNorm && wanted_tap.layer <= c.layers,
            "a tap names a layer");
  }
  residual = backend.allocate(max_rows, c.hidden);
  if (!taps.empty()) {
    features = backend.allocate(max_rows, static_cast<int>(taps.size()) * c.hidden);
  }
}

Target::Target(const Model& model, KvCache& cache, int max_rows, std::vector<FeatureTap> taps)
    : state_(new State(model, cache, max_rows, std::move(taps))) {}
Target::~Target() = default;

const Model& Target::model() const { return state_->model; }
KvCache& Target::cache() { return state_->cache; }
int Target::max_rows() const { return state_->max_rows; }
int Target::feature_width() const {
  return static_cast<int>(state_->taps.size()) * state_->model.config.hidden;
}

ForwardResult Target::forward(std::span<const SequenceRows> batch) {
  State& s = *state_;
  s.check(batch);
  ForwardResult result;
  s.tokens.clear();
  for (const SequenceRows& part : batch) {
    result.first_feature_row.push_back(static_cast<int>(s.tokens.size()));
    s.tokens.insert(s.tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  const int rows = static_cast<int>(s.tokens.size());
  lay_out_rows(batch, s.layout);
  s.run_layers(s.residual.rows(rows));
  result.logits = s.compute_logits(batch, rows, result.first_logits_row);
  if (s.features) result.features = s.features.rows(rows);
  return result;
}

void Target::State::check(std::span<const SequenceRows> batch) const {
  std::size_t rows = 0;
  for (const SequenceRows& part : batch) {
    rows += part.tokens.size();
    expects(part.sequence && !part.tokens.empty(), "a sequence brings rows");
    for (const TokenId token : part.tokens) {
      expects(token >= 0 && token < model.config.vocabulary, "a token of the vocabulary");
    }
  }
  expects(rows >= 1 && rows <= static_cast<std::size_t>(max_rows), "at most max_rows rows");
}

/// x = the residual stream of all rows, from their embeddings to the last layer.
void Target::State::run_layers(const View& x) {
  prepared = backend.prepare(layout);
  expects(prepared->positions <= model.config.context, "positions of the context");
  const View angles = rope.reach(prepared->positions);
  const Indices ids = token_list.put(tokens);
  backend.replay({this, x.rows}, [&] {
    backend.embed(*model.embedding, ids, x);
    for (int layer = 0; layer < model.config.layers; ++layer) {
      tap(layer, x);
      const LayerWeights& weights = model.layers[static_cast<std::size_t>(layer)];
      const BlockRows rows{&cache.store(), layer, prepared.get(), angles};
      block.attend(plan, weights, rows, x, x);
      block.feed_forward(plan, weights, x);
    }
    tap(model.config.layers, x);
    tap(FeatureTap::kFinalNorm, x);
  });
}

/// Copies the residual stream x, as it enters `layer`, to every tap that wants it.
void Target::State::tap(int layer, const View& x) {
  const int hidden = model.config.hidden;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    if (taps[i].layer != layer) continue;
    const View to = features.rows(x.rows).col_range(static_cast<int>(i) * hidden, hidden);
    if (layer == FeatureTap::kFinalNorm) {
      backend.rms_norm(x, model.final_norm.view(), model.config.norm_epsilon, to);
    } else {
      backend.copy(x, to);
    }
  }
}

/// Final norm and output matrix, for the rows that asked only.
View Target::State::compute_logits(std::span<const SequenceRows> batch, int rows,
                                   std::vector<int>& first_row) {
  wanted.clear();
  int row = 0;
  for (const SequenceRows& part : batch) {
    first_row.push_back(static_cast<int>(wanted.size()));
    const int last = row + static_cast<int>(part.tokens.size()) - 1;
    if (part.logits == SequenceRows::Logits::all) {
      for (int i = row; i <= last; ++i) wanted.push_back(i);
    } else if (part.logits == SequenceRows::Logits::last) {
      wanted.push_back(last);
    }
    row = last + 1;
  }
  if (wanted.empty()) return {};
  const int count = static_cast<int>(wanted.size());
  if (!logits || logits.view().rows < count) {
    logit_rows = backend.allocate(count, model.config.hidden);
    logits = backend.allocate(count, model.config.vocabulary);  // last: it says how many there are
  }
  const View normed = logit_rows.rows(count);
  const View out = logits.rows(count);
  backend.gather_rows(residual.rows(rows), wanted_list.put(wanted), normed);
  backend.rms_norm(normed, model.final_norm.view(), model.config.norm_epsilon, normed);
  const Projection output[] = {{&model.output_weight(), out}};
  backend.linear({.input = normed, .outputs = output});
  return out;
}

}  // namespace talon
