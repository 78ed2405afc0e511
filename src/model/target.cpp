#include "model/target.h"

#include <cmath>

#include "backend/index_list.h"
#include "core/error.h"
#include "model/row_layout.h"

namespace talon {

struct Target::State {
  State(const Model& model, KvCache& cache, int max_rows, std::vector<FeatureTap> taps);

  void check(std::span<const SequenceRows> batch) const;
  void run_layers(const View& x);
  void run_layer(int layer, const View& x);
  void tap(int layer, const View& x);
  View compute_logits(std::span<const SequenceRows> batch, int rows, std::vector<int>& first_row);

  const Model& model;
  Backend& backend;
  KvCache& cache;
  int max_rows;
  std::vector<FeatureTap> taps;

  // Activations, [max_rows, width].
  Buffer residual, q, k, v, attended, gate_up, features;
  Buffer logit_rows, logits;  // as many rows as have been asked for at once
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> wanted;  // rows with logits
  IndexList token_list, wanted_list;
  AttentionLayout layout;
  std::unique_ptr<PreparedLayout> prepared;  // of the forward in flight
};

Target::State::State(const Model& of, KvCache& kv, int most_rows,
                     std::vector<FeatureTap> wanted_taps)
    : model(of),
      backend(*of.backend),
      cache(kv),
      max_rows(most_rows),
      taps(std::move(wanted_taps)),
      token_list(backend),
      wanted_list(backend) {
  expects(max_rows >= 1);
  const ModelConfig& c = model.config;
  for (const FeatureTap& wanted_tap : taps) {
    expects(wanted_tap.layer >= FeatureTap::kFinalNorm && wanted_tap.layer <= c.layers,
            "a tap names a layer");
  }
  residual = backend.allocate(max_rows, c.hidden);
  q = backend.allocate(max_rows, c.heads * c.head_dim);
  k = backend.allocate(max_rows, c.kv_heads * c.head_dim);
  v = backend.allocate(max_rows, c.kv_heads * c.head_dim);
  attended = backend.allocate(max_rows, c.heads * c.head_dim);
  gate_up = backend.allocate(max_rows, 2 * c.intermediate);
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
  const Indices ids = token_list.put(tokens);
  backend.replay({this, x.rows}, [&] {
    backend.embed(*model.embedding, ids, x);
    for (int layer = 0; layer < model.config.layers; ++layer) {
      tap(layer, x);
      run_layer(layer, x);
    }
    tap(model.config.layers, x);
    tap(FeatureTap::kFinalNorm, x);
  });
}

/// The transformer block: attention and the gated feed-forward, each reading the normalised
/// residual stream x and adding to it.
void Target::State::run_layer(int layer, const View& x) {
  const LayerWeights& w = model.layers[static_cast<std::size_t>(layer)];
  const ModelConfig& c = model.config;
  const View q_rows = q.rows(x.rows), k_rows = k.rows(x.rows), v_rows = v.rows(x.rows);
  const View attended_rows = attended.rows(x.rows);
  const View gate_rows = gate_up.rows(x.rows).col_range(0, c.intermediate);
  const View up_rows = gate_up.rows(x.rows).col_range(c.intermediate, c.intermediate);

  const Projection qkv[] = {{w.q.get(), q_rows, w.q_bias.view()},
                            {w.k.get(), k_rows, w.k_bias.view()},
                            {w.v.get(), v_rows, w.v_bias.view()}};
  backend.linear({.input = x,
                  .transform = InputTransform::rms_norm,
                  .norm = w.attention_norm.view(),
                  .norm_epsilon = c.norm_epsilon,
                  .outputs = qkv});
  backend.attention({.q = q_rows,
                     .k = k_rows,
                     .v = v_rows,
                     .out = attended_rows,
                     .cache = &cache.store(),
                     .layer = layer,
                     .layout = prepared.get(),
                     .rope = model.rope.view(),
                     .q_norm = w.q_norm.view(),
                     .k_norm = w.k_norm.view(),
                     .norm_epsilon = c.norm_epsilon,
                     .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim)),
                     .window = c.sliding_window});
  const Projection o[] = {{w.o.get(), x, w.o_bias.view(), /*accumulate=*/true}};
  backend.linear({.input = attended_rows, .outputs = o});

  const Projection gate_and_up[] = {{w.gate.get(), gate_rows}, {w.up.get(), up_rows}};
  backend.linear({.input = x,
                  .transform = InputTransform::rms_norm,
                  .norm = w.ffn_norm.view(),
                  .norm_epsilon = c.norm_epsilon,
                  .outputs = gate_and_up});
  const Projection down[] = {{w.down.get(), x, {}, /*accumulate=*/true}};
  backend.linear(
      {.input = gate_up.rows(x.rows), .transform = InputTransform::silu_gate, .outputs = down});
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
