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
  void embed(const HeadPass& pass, const View& out);
  View fuse_eagle1(const HeadPass& pass);
  View fuse_eagle3(const HeadPass& pass);
  void reduce_taps(const View& features, const View& out);
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
  Buffer features;  // the target's, normed, where a head norms them
  Buffer residual;
  LayerPlan plan;
  BlockRunner block;
  RopeTable rope;
  AttentionLayout with_sinks;  // of a pass
  IndexList tokens;
  OutputHead output;
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
                                               : LayerPlan::HeadNorm::none};
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
      block(backend, {&plan, 1}, of.config.hidden, max_rows),
      rope(backend, of.config.rope, turning_columns(of.config.rope, of.config.head_dim), positions),
      tokens(backend),
      output(backend, *of.output, of.target_token, coupling) {
  expects(max_rows >= 1);
  const HeadConfig& c = config;
  pair = backend.allocate(max_rows, 2 * c.hidden);
  if (head.fused_norm || !head.tap_norms.empty()) {
    features = backend.allocate(max_rows, c.feature_width);
  }
  residual = backend.allocate(max_rows, c.hidden);
}

HeadNetwork::HeadNetwork(const HeadWeights& weights, const Coupling& coupling, int max_rows,
                         int positions, std::optional<PairWindow> window)
    : state_(new State(weights, coupling, max_rows, positions,
                       window.value_or(PairWindow{weights.config.sliding_window}))) {}
HeadNetwork::~HeadNetwork() = default;

Backend& HeadNetwork::backend() const { return state_->backend; }
int HeadNetwork::max_rows() const { return state_->max_rows; }
int HeadNetwork::feature_width() const { return state_->config.feature_width; }
int HeadNetwork::hidden() const { return state_->config.hidden; }

/// docs/methods.md 2.1 and 2.2: fuse the pair, attend, feed forward.
void HeadNetwork::forward(const HeadPass& pass) {
  State& s = *state_;
  const int rows = static_cast<int>(pass.tokens.size());
  expects(rows >= 1 && rows <= s.max_rows && pass.out.rows == rows, "at most max_rows rows");
  const View residual = s.residual.rows(rows);
  const View input =
      s.config.generation == HeadGeneration::eagle1 ? s.fuse_eagle1(pass) : s.fuse_eagle3(pass);
  const auto layout = s.backend.prepare(s.seen(*pass.layout));
  BlockRows cached{pass.cache, 0, layout.get(), {}};
  if (s.plan.rope != LayerPlan::Rope::none) cached.rope = s.rope.reach(layout->positions);
  s.block.attend(s.plan, s.head.layer, cached, input, residual);
  s.block.feed_forward(s.plan, s.head.layer, residual);
  for (const LayerWeights& layer : s.head.further_layers) {
    ++cached.layer;
    s.block.run(s.plan, layer, cached, residual);
  }
  if (s.config.norm_output) {
    s.norm(residual, s.head.output_norm, pass.out);
  } else {
    s.backend.copy(residual, pass.out);
  }
}

/// What rows see, beside a window the sinks.
const AttentionLayout& HeadNetwork::State::seen(const AttentionLayout& rows) {
  if (window.newest == 0 || window.sinks == 0) return rows;
  with_sinks = rows;
  list_sinks(with_sinks, window.sinks, window.newest);
  return with_sinks;
}

void HeadNetwork::State::embed(const HeadPass& pass, const View& out) {
  backend.embed(*head.embedding, tokens.put(pass.tokens), out);
  if (!head.reads_captions) return;
  for (const auto& [first, vectors] : pass.given)
    backend.copy(vectors, out.row_range(first, vectors.rows));
}

/// residual = fc([embedding; feature]), which attention reads as it is. No activation; official
/// heads have no norm here.
View HeadNetwork::State::fuse_eagle1(const HeadPass& pass) {
  const View both = pair.rows(static_cast<int>(pass.tokens.size()));
  const View embedding = both.col_range(0, config.hidden);
  const View feature = both.col_range(config.hidden, config.hidden);
  embed(pass, embedding);
  if (head.embedding_norm) norm(embedding, head.embedding_norm, embedding);
  if (head.feature_norm) {
    norm(pass.features, head.feature_norm, feature);
  } else {
    backend.copy(pass.features, feature);
  }
  const View x = residual.rows(both.rows);
  const Projection fc[] = {{head.fc.get(), x, head.fc_bias.view()}};
  backend.linear({.input = both, .outputs = fc, .rough = true});
  return x;
}

/// residual = the fused taps (target rows) or the head's own earlier output; attention reads
/// [norm(embedding); norm(residual)].
View HeadNetwork::State::fuse_eagle3(const HeadPass& pass) {
  const View both = pair.rows(static_cast<int>(pass.tokens.size()));
  const View embedding = both.col_range(0, config.hidden);
  const View feature = both.col_range(config.hidden, config.hidden);
  const View x = residual.rows(both.rows);
  if (pass.from_target) {
    reduce_taps(pass.features, x);
  } else {
    backend.copy(pass.features, x);
  }
  embed(pass, embedding);
  norm(embedding, head.embedding_norm, embedding);
  norm(x, head.feature_norm, feature);
  if (config.norm_before_residual) backend.copy(feature, x);
  return both;
}

void HeadNetwork::State::reduce_taps(const View& taps, const View& out) {
  View input = taps;
  if (features) {
    input = features.rows(taps.rows);
    const int width = taps.cols / static_cast<int>(head.taps.size());
    if (head.fused_norm) norm(taps, head.fused_norm, input);
    const View& unnormed = head.fused_norm ? input : taps;
    for (std::size_t tap = 0; tap < head.tap_norms.size(); ++tap) {
      const int first = static_cast<int>(tap) * width;
      norm(unnormed.col_range(first, width), head.tap_norms[tap], input.col_range(first, width));
    }
  }
  const Projection fc[] = {{head.fc.get(), out, head.fc_bias.view()}};
  backend.linear({.input = input, .outputs = fc, .rough = true});
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
