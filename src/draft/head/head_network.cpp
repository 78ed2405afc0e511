#include "draft/head/head_network.h"

#include "backend/index_list.h"
#include "core/error.h"
#include "draft/head/sinks.h"
#include "model/block.h"
#include "model/rope.h"

namespace talon {

struct HeadNetwork::State {
  State(const HeadWeights& of, const Coupling& coupling, int most_rows, int positions,
        PairWindow pairs);

  const AttentionLayout& seen(const AttentionLayout& rows);
  View place_of_features(int rows, bool from_taps);
  const LayerPlan& plan_of(int layer) const {
    return config.slides_alone(layer) ? sliding_plan : plan;
  }
  void run(const Indices& ids, std::span<const GivenRows> given, bool from_taps,
           const BlockRows& cached, const PreparedLayout* without_sinks);
  void embed(const Indices& ids, std::span<const GivenRows> given, const View& out);
  View fuse_eagle1(const Indices& ids, std::span<const GivenRows> given);
  View fuse_eagle3(const Indices& ids, std::span<const GivenRows> given, bool from_taps);
  void reduce_taps(const View& taps, const View& out);
  void norm(const View& x, const Buffer& weight, const View& out);
  OutputNorm before_output() const {
    const bool normed = head.output_norm && !config.norm_output;
    return {normed ? head.output_norm.view() : View{}, config.norm_epsilon};
  }

  const HeadWeights& head;
  const HeadConfig& config;
  Backend& backend;
  int max_rows;
  PairWindow window;
  // Activations, [max_rows, width].
  Buffer pair;      // embedding and feature side by side, [.., 2 H]
  Buffer features;  // the target's, where a head fuses several taps
  Buffer residual;
  LayerPlan plan;
  LayerPlan sliding_plan;  // of layers that slide where others do not
  BlockRunner block;
  RopeTable rope;
  AttentionLayout with_sinks;  // of a pass
  IndexList tokens;
  OutputHead output;
  std::uint64_t replay_owner = new_replay_owner();
};

namespace {

LayerPlan head_plan_of(const HeadConfig& config, const PairWindow& window) {
  return {.heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .intermediate = config.intermediate,
          .norm_epsilon = config.norm_epsilon,
          .window = window.newest > 0 ? window.newest + window.sinks : 0,
          .rough = true,
          .head_norm = config.head_layer_norms ? LayerPlan::HeadNorm::layer_per_head
                                               : LayerPlan::HeadNorm::none,
          .activation = config.activation};
}

}  // namespace

HeadNetwork::State::State(const HeadWeights& of, const Coupling& coupling, int most_rows,
                          int positions, PairWindow pairs)
    : head(of),
      config(of.config),
      backend(*of.backend),
      max_rows(most_rows),
      window(pairs),
      plan(of.plan.value_or(head_plan_of(of.config, window))),
      sliding_plan(plan),
      block(backend, {&plan, 1}, of.config.hidden, max_rows),
      rope(backend, of.config.rope, turning_columns(of.config.rope, of.config.head_dim), positions),
      tokens(backend, max_rows),
      output(backend, *of.output, of.target_token, coupling, of.logit_form) {
  expects(max_rows >= 1);
  const HeadConfig& c = config;
  sliding_plan.window = c.sliding_window;
  pair = backend.allocate(max_rows, 2 * c.hidden);
  if (c.generation != HeadGeneration::eagle1)
    features = backend.allocate(max_rows, c.feature_width);
  residual = backend.allocate(max_rows, c.hidden);
}

HeadNetwork::HeadNetwork(const HeadWeights& weights, const Coupling& coupling, int max_rows,
                         int positions, std::optional<PairWindow> window)
    : state_(new State(weights, coupling, max_rows, positions,
                       window.value_or(PairWindow{weights.config.common_window()}))) {}
HeadNetwork::~HeadNetwork() = default;

Backend& HeadNetwork::backend() const { return state_->backend; }
int HeadNetwork::max_rows() const { return state_->max_rows; }
int HeadNetwork::feature_width() const { return state_->config.feature_width; }
int HeadNetwork::hidden() const { return state_->config.hidden; }

/// What varies is brought to memory of the network's own, so that the rest can be replayed; not so
/// the vectors of captions, which are few.
void HeadNetwork::forward(const HeadPass& pass) {
  State& s = *state_;
  const int rows = static_cast<int>(pass.tokens.size());
  expects(rows >= 1 && rows <= s.max_rows && pass.out.rows == rows, "at most max_rows rows");
  const bool from_taps = s.config.generation != HeadGeneration::eagle1 && pass.from_target;
  s.backend.copy(pass.features, s.place_of_features(rows, from_taps));
  const Indices ids = s.tokens.put(pass.tokens);
  const AttentionLayout& seen = s.seen(*pass.layout);
  const auto layout = s.backend.prepare(seen);
  // Layers that slide where others do not have no sinks.
  const bool twice = s.config.common_window() < s.config.sliding_window && &seen != pass.layout;
  const auto without_sinks = twice ? s.backend.prepare(*pass.layout) : nullptr;
  BlockRows cached{pass.cache, 0, layout.get(), {}};
  if (s.plan.rope != LayerPlan::Rope::none) cached.rope = s.rope.reach(layout->positions);
  const auto given = s.head.reads_captions ? pass.given : std::span<const GivenRows>{};
  const PreparedLayout* sliding = twice ? without_sinks.get() : layout.get();
  const auto body = [&] { s.run(ids, given, from_taps, cached, sliding); };
  if (given.empty()) {
    s.backend.replay({s.replay_owner, rows, from_taps ? 1 : 0}, body);
  } else {
    body();
  }
  s.backend.copy(s.residual.rows(rows), pass.out);
}

/// What rows see, beside a window the sinks.
const AttentionLayout& HeadNetwork::State::seen(const AttentionLayout& rows) {
  if (window.newest == 0 || window.sinks == 0) return rows;
  with_sinks = rows;
  list_sinks(with_sinks, window.sinks, window.newest);
  return with_sinks;
}

/// Where a pass reads the features of its rows, which it overwrites.
View HeadNetwork::State::place_of_features(int rows, bool from_taps) {
  if (from_taps) return features.rows(rows);
  if (config.generation != HeadGeneration::eagle1) return residual.rows(rows);
  return pair.rows(rows).col_range(config.hidden, config.hidden);
}

/// docs/methods.md 2.1 and 2.2: fuse the pair, attend, feed forward. The output is the residual.
void HeadNetwork::State::run(const Indices& ids, std::span<const GivenRows> given, bool from_taps,
                             const BlockRows& cached, const PreparedLayout* without_sinks) {
  const auto rows_in = [&](int layer) {
    BlockRows of_layer = cached;
    of_layer.layer = layer;
    if (config.slides_alone(layer)) of_layer.layout = without_sinks;
    return of_layer;
  };
  const View x = residual.rows(ids.count);
  const View input = config.generation == HeadGeneration::eagle1
                         ? fuse_eagle1(ids, given)
                         : fuse_eagle3(ids, given, from_taps);
  block.attend(plan_of(0), head.layer, rows_in(0), input, x);
  block.feed_forward(plan_of(0), head.layer, x);
  int index = 0;
  for (const LayerWeights& layer : head.further_layers) {
    ++index;
    block.run(plan_of(index), layer, rows_in(index), x);
  }
  if (config.norm_output) norm(x, head.output_norm, x);
}

void HeadNetwork::State::embed(const Indices& ids, std::span<const GivenRows> given,
                               const View& out) {
  backend.embed(*head.embedding, ids, out);
  for (const auto& [first, vectors] : given)
    backend.copy(vectors, out.row_range(first, vectors.rows));
}

/// residual = fc([embedding; feature]), which attention reads as it is. No activation; official
/// heads have no norm here.
View HeadNetwork::State::fuse_eagle1(const Indices& ids, std::span<const GivenRows> given) {
  const View both = pair.rows(ids.count);
  const View embedding = both.col_range(0, config.hidden);
  const View feature = both.col_range(config.hidden, config.hidden);
  embed(ids, given, embedding);
  if (head.embedding_norm) norm(embedding, head.embedding_norm, embedding);
  if (head.feature_norm) norm(feature, head.feature_norm, feature);
  const View x = residual.rows(both.rows);
  const Projection fc[] = {{head.fc.get(), x, head.fc_bias.view()}};
  backend.linear({.input = both, .outputs = fc, .rough = true});
  return x;
}

/// residual = the fused taps (target rows) or the head's own earlier output; attention reads
/// [norm(embedding); norm(residual)].
View HeadNetwork::State::fuse_eagle3(const Indices& ids, std::span<const GivenRows> given,
                                     bool from_taps) {
  const View both = pair.rows(ids.count);
  const View embedding = both.col_range(0, config.hidden);
  const View feature = both.col_range(config.hidden, config.hidden);
  const View x = residual.rows(both.rows);
  if (from_taps) reduce_taps(features.rows(both.rows), x);
  embed(ids, given, embedding);
  norm(embedding, head.embedding_norm, embedding);
  norm(x, head.feature_norm, feature);
  if (config.norm_before_residual) backend.copy(feature, x);
  return both;
}

/// out = fc(taps), which are overwritten.
void HeadNetwork::State::reduce_taps(const View& taps, const View& out) {
  if (head.fused_norm) norm(taps, head.fused_norm, taps);
  const int width = taps.cols / static_cast<int>(head.taps.size());
  for (std::size_t tap = 0; tap < head.tap_norms.size(); ++tap) {
    const View one = taps.col_range(static_cast<int>(tap) * width, width);
    norm(one, head.tap_norms[tap], one);
  }
  const Projection fc[] = {{head.fc.get(), out, head.fc_bias.view()}};
  backend.linear({.input = taps, .outputs = fc, .rough = true});
}

void HeadNetwork::State::norm(const View& x, const Buffer& weight, const View& out) {
  backend.rms_norm(x, weight.view(), config.norm_epsilon, out);
}

RowChildren HeadNetwork::top_children(const View& features, int count,
                                      std::span<const DraftPlace> places,
                                      const GuideFeatures& guide) {
  return state_->output.top_children(features, count, places, state_->before_output(), guide);
}

std::vector<float> HeadNetwork::logits(const View& features, const GuideFeatures& guide) {
  return state_->output.logits(features, state_->before_output(), guide);
}

}  // namespace talon
