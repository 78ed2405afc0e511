#include "model/target.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/index_list.h"
#include "core/error.h"
#include "model/block.h"
#include "model/rope.h"
#include "model/row_layout.h"

namespace talon {

struct Target::State {
  State(const Model& model, KvCache& cache, int max_rows, std::vector<FeatureTap> taps);

  /// What all layers of a forward read beside the residual stream.
  struct SharedInputs {
    View angles, local_angles;  // of the rotary tables
    Indices flight, first_uses;
  };

  void check(std::span<const SequenceRows> batch) const;
  ForwardResult list_rows(std::span<const SequenceRows> asked, std::span<const SequenceRows> batch);
  void lay_out(std::span<const SequenceRows> batch);
  Indices run_layers(const View& x);
  BlockRows rows_in(int layer, const SharedInputs& inputs, int rows) const;
  void embed(const Indices& ids, const View& x);
  void embed_for_layers(const Indices& ids, const View& x);
  void final_norm(const View& x, const View& out);
  void tap(int layer, const View& x);
  void multiply_out(const View& x, const View& out);
  View compute_logits(std::span<const SequenceRows> batch, int rows,
                      std::vector<int>& first_logits_row);
  std::span<const SequenceRows> with_guides(std::span<const SequenceRows> batch);
  void guide(std::span<const SequenceRows> batch, const ForwardResult& result);
  void guide(const View& own, const View& of_guide, float guidance);

  const Model& model;
  Backend& backend;
  KvCache& cache;
  int max_rows;
  std::vector<FeatureTap> taps;

  int positions;  // the most that a sequence has
  BlockRunner block;
  RopeTable rope;
  std::optional<RopeTable> local_rope;
  Buffer query_scale;
  Buffer residual, features;                // [max_rows, width]
  Buffer layer_inputs, layer_tokens;        // [max_rows, layers * per_layer_input], or empty
  Buffer logit_rows, logits_inner, logits;  // as many rows as have been asked for at once
  std::vector<TokenId> tokens;
  std::vector<SequenceRows> all_parts;                        // of a batch with guides
  std::vector<std::vector<TokenId>> guide_tokens;             // of each part that has a guide
  std::vector<std::pair<int, std::span<const float>>> given;  // vectors and their first row
  std::vector<std::int32_t> wanted;                           // rows with logits
  std::vector<std::int32_t> flight;  // rows whose inputs are kept for layers with a state
  IndexList token_list, wanted_list, flight_list;
  IndexList first_uses;               // of a model with experts
  std::vector<std::int32_t> no_uses;  // [max_rows] zeros, of such a model
  AttentionLayout layout, near_layout;
  std::unique_ptr<PreparedLayout> prepared, near_prepared;  // of the forward in flight
  std::uint64_t replay_owner = new_replay_owner();
  int flight_room = 0;  // of the cache's states when replay_owner began
};

namespace {

/// The last rows of a part, which have a row of its guide beside them.
int rows_with_guide(const SequenceRows& part) {
  if (part.sequence->guide() == nullptr) return 0;
  const auto rows = static_cast<int>(part.tokens.size());
  return rows - part.sequence->rows_without_guide(part.sequence->length(), rows);
}

/// The factors of queries at all positions, or nothing.
Buffer query_scales(Backend& backend, const QueryScaling& scaling, int positions) {
  if (scaling.beta == 0) return {};
  std::vector<float> factors(static_cast<std::size_t>(positions));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double position = static_cast<double>(i) + scaling.shift;
    factors[i] =
        static_cast<float>(1 + scaling.beta * std::log1p(std::floor(position / scaling.floor)));
  }
  Buffer buffer = backend.allocate(positions, 1);
  backend.upload(factors, buffer.view());
  return buffer;
}

/// What the layers with a state are beside the rows of a forward.
std::vector<RecurrentArgs> state_layers(const Model& model, KvCache& cache) {
  std::vector<RecurrentArgs> layers;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerPlan& plan = model.config.plans[i];
    if (plan.recurrent.value_heads == 0) continue;
    const RecurrentWeights& w = model.layers[i].recurrent;
    RecurrentArgs args;
    args.shape = cache.states().shape();
    args.tiled_heads = plan.recurrent.tiled_heads;
    args.states = cache.states().states(plan.recurrent.layer);
    args.tails = cache.states().tails(plan.recurrent.layer);
    args.filter = w.filter.view();
    args.filter_bias = w.filter_bias.view();
    args.decay = w.rate.view();
    args.decay_bias = w.bias.view();
    args.norm = w.norm.view();
    args.norm_epsilon = plan.norm_epsilon;
    args.skip = w.skip.view();
    args.steps = plan.recurrent.steps;
    layers.push_back(args);
  }
  return layers;
}

}  // namespace

Target::State::State(const Model& of, KvCache& kv, int most_rows,
                     std::vector<FeatureTap> wanted_taps)
    : model(of),
      backend(*of.backend),
      cache(kv),
      max_rows(most_rows),
      taps(std::move(wanted_taps)),
      positions(std::min(of.config.context, kv.total_pages() * kPageRows)),
      block(backend, of.config.plans, of.config.hidden, max_rows),
      rope(backend, of.config.rope, rope_width(of.config.rope, of.config, LayerPlan::Rope::global),
           positions),
      query_scale(query_scales(backend, of.config.query_scaling, positions)),
      token_list(backend, max_rows),
      wanted_list(backend),
      flight_list(backend, cache.states().shape().layers > 0 ? max_rows : 0),
      first_uses(backend, model.config.has_experts() ? max_rows : 0),
      no_uses(model.config.has_experts() ? static_cast<std::size_t>(max_rows) : 0) {
  expects(max_rows >= 1);
  const ModelConfig& c = model.config;
  for (const FeatureTap& wanted_tap : taps) {
    expects(wanted_tap.layer >= FeatureTap::kFinalNorm && wanted_tap.layer <= c.layers,
            "a tap names a layer");
  }
  if (c.local_rope) {
    local_rope.emplace(backend, *c.local_rope, rope_width(*c.local_rope, c, LayerPlan::Rope::local),
                       positions);
  }
  if (cache.states().shape().layers > 0) cache.states().describe(state_layers(model, cache));
  residual = backend.allocate(max_rows, c.hidden);
  if (c.per_layer_input > 0) {
    layer_inputs = backend.allocate(max_rows, c.layers * c.per_layer_input);
    layer_tokens = backend.allocate(max_rows, c.layers * c.per_layer_input);
  }
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

std::vector<NodeId> ForwardResult::rows_of_guide(std::size_t index,
                                                 std::span<const NodeId> rows) const {
  std::vector<NodeId> beside;
  for (const NodeId row : rows) {
    if (row >= rows_before_guide[index]) beside.push_back(row - rows_before_guide[index]);
  }
  return beside;
}

ForwardResult Target::forward(std::span<const SequenceRows> asked) {
  State& s = *state_;
  const std::span<const SequenceRows> batch = s.with_guides(asked);
  s.check(batch);
  ForwardResult result = s.list_rows(asked, batch);
  const int rows = static_cast<int>(s.tokens.size());
  s.lay_out(batch);
  result.first_uses = s.run_layers(s.residual.rows(rows));
  for (const SequenceRows& part : batch) part.sequence->settle_states();
  result.logits = s.compute_logits(batch, rows, result.first_logits_row);
  s.guide(asked, result);
  if (s.features) result.features = s.features.rows(rows);
  return result;
}

/// Lists the tokens of all rows, and the vectors that stand for some. Returns where each part
/// begins among them.
ForwardResult Target::State::list_rows(std::span<const SequenceRows> asked,
                                       std::span<const SequenceRows> batch) {
  ForwardResult result;
  tokens.clear();
  for (const SequenceRows& part : batch) {
    result.first_row.push_back(static_cast<int>(tokens.size()));
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  given.clear();
  std::size_t next_guide = asked.size();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const SequenceRows& part = asked[i];
    const int guided = rows_with_guide(part);
    result.first_guide_row.push_back(guided > 0 ? result.first_row[next_guide++] : -1);
    result.rows_before_guide.push_back(static_cast<int>(part.tokens.size()) - guided);
    if (!part.vectors.empty()) given.emplace_back(result.first_row[i], part.vectors);
  }
  return result;
}

/// Where the rows lie in the cache and what they see, for each kind of layers.
void Target::State::lay_out(std::span<const SequenceRows> batch) {
  lay_out_rows(batch, layout);
  if (cache.has_near()) lay_out_rows(batch, near_layout, KvLayers::near);
  if (cache.states().shape().layers == 0) return;
  lay_out_states(batch, layout, flight);
  cache.states().reserve_flight(static_cast<int>(flight.size()));
}

/// The batch, then the rows of the guides in it.
std::span<const SequenceRows> Target::State::with_guides(std::span<const SequenceRows> batch) {
  const auto guided = [](const SequenceRows& part) { return rows_with_guide(part) > 0; };
  if (std::ranges::none_of(batch, guided)) return batch;
  all_parts.assign(batch.begin(), batch.end());
  guide_tokens.clear();
  guide_tokens.reserve(batch.size());
  for (const SequenceRows& part : batch) {
    if (!guided(part)) continue;
    const std::vector<TokenId>& own = guide_tokens.emplace_back(
        part.sequence->guide_tokens(part.sequence->length(), part.tokens));
    expects(own.size() == part.tokens.size() || part.parents.empty(),
            "a tree of which every row has one beside it");
    all_parts.push_back(part);
    all_parts.back().sequence = part.sequence->guide();
    all_parts.back().tokens = own;
    all_parts.back().vectors = {};
    if (part.picture_prompt >= 0) all_parts.back().picture_prompt -= part.sequence->guide_lead();
  }
  return all_parts;
}

/// Replaces the logits of guided rows.
void Target::State::guide(std::span<const SequenceRows> batch, const ForwardResult& result) {
  std::size_t next = batch.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const SequenceRows& part = batch[i];
    const int beside = rows_with_guide(part);
    if (beside == 0) continue;
    const int guide_row = result.first_logits_row[next++];
    if (part.logits == SequenceRows::Logits::none) continue;
    const bool all = part.logits == SequenceRows::Logits::all;
    const int count = all ? beside : 1;  // the last rows
    const auto rows = static_cast<int>(part.tokens.size());
    const int own_row = result.first_logits_row[i] + (all ? rows - count : 0);
    const auto is_guided = [&](int row) {
      const int at = result.first_row[i] + rows - count + row;
      return layout.rows[static_cast<std::size_t>(at)].visible < part.guided_until;
    };
    for (int row = 0, end = 0; row < count; row = end) {
      end = row + 1;
      while (end < count && is_guided(end) == is_guided(row)) ++end;
      if (!is_guided(row)) continue;
      guide(logits.view().row_range(own_row + row, end - row),
            logits.view().row_range(guide_row + row, end - row), part.guidance);
    }
  }
}

/// By operations that round once each, so that all backends give the same bits.
void Target::State::guide(const View& own, const View& of_guide, float guidance) {
  backend.add_scaled(own, of_guide, -1, own);
  backend.scale(own, guidance);
  backend.add(of_guide, own, own);
}

void Target::State::check(std::span<const SequenceRows> batch) const {
  std::size_t rows = 0;
  for (const SequenceRows& part : batch) {
    rows += part.tokens.size();
    expects(part.sequence && !part.tokens.empty(), "a sequence brings rows");
    const auto width = static_cast<std::size_t>(model.config.hidden);
    expects(part.vectors.size() % width == 0 && part.vectors.size() / width <= part.tokens.size(),
            "vectors of whole rows");
    for (const TokenId token : part.tokens) {
      expects(token >= 0 && token < model.config.input_count(), "a token that the model reads");
    }
  }
  expects(rows >= 1 && rows <= static_cast<std::size_t>(max_rows), "at most max_rows rows");
}

/// x = the residual stream of all rows, from their embeddings to the last layer. Returns
/// ForwardResult::first_uses.
Indices Target::State::run_layers(const View& x) {
  prepared = backend.prepare(layout);
  if (cache.has_near()) near_prepared = backend.prepare(near_layout);
  expects(prepared->positions <= model.config.context, "positions of the context");
  SharedInputs inputs;
  inputs.angles = rope.reach(prepared->positions);
  if (local_rope) inputs.local_angles = local_rope->reach(prepared->positions);
  const Indices ids = token_list.put(tokens);
  if (!flight.empty()) inputs.flight = flight_list.put(flight);
  if (!no_uses.empty()) {
    inputs.first_uses = first_uses.put(std::span(no_uses).first(static_cast<std::size_t>(x.rows)));
  }
  const auto body = [&] {
    embed(ids, x);
    for (const auto& [row, vectors] : given)
      backend.upload(vectors, x.row_range(row, static_cast<int>(vectors.size()) / x.cols));
    for (int layer = 0; layer < model.config.layers; ++layer) {
      tap(layer, x);
      const auto index = static_cast<std::size_t>(layer);
      block.run(model.config.plans[index], model.layers[index], rows_in(layer, inputs, x.rows), x);
    }
    tap(model.config.layers, x);
    tap(FeatureTap::kFinalNorm, x);
  };
  if (const int room = cache.states().flight_room(); room != flight_room) {
    flight_room = room;
    replay_owner = new_replay_owner();  // what was recorded writes to memory that is no more
  }
  if (given.empty()) {
    backend.replay({replay_owner, x.rows, inputs.flight.count}, body);
  } else {
    body();
  }
  return inputs.first_uses;
}

/// What the block of a layer reads and writes beside the residual stream, for `rows` rows.
BlockRows Target::State::rows_in(int layer, const SharedInputs& inputs, int rows) const {
  const LayerPlan& plan = model.config.plans[static_cast<std::size_t>(layer)];
  const KvPlace place = cache.place(plan.cache_layer);
  const bool is_near = place.of == KvLayers::near;
  BlockRows result{place.store, place.layer, (is_near ? near_prepared : prepared).get(), {}};
  if (plan.recurrent.value_heads > 0) {
    const int index = plan.recurrent.layer;
    result.recurrent = &cache.states().layer(index);
    if (inputs.flight.count > 0) result.flight = cache.states().flight(index, inputs.flight.count);
    result.flight_rows = inputs.flight;
  }
  if (plan.rope == LayerPlan::Rope::global) result.rope = inputs.angles;
  if (plan.rope == LayerPlan::Rope::local) result.rope = inputs.local_angles;
  if (plan.scales_queries) result.query_scale = query_scale.view();
  result.first_uses = inputs.first_uses;
  if (plan.per_layer_input > 0) {
    result.input =
        layer_inputs.rows(rows).col_range(layer * plan.per_layer_input, plan.per_layer_input);
  }
  return result;
}

void Target::State::embed(const Indices& ids, const View& x) {
  backend.embed(*model.embedding, ids, x);
  if (model.config.embedding_scale != 1) backend.scale(x, model.config.embedding_scale);
  if (layer_inputs) embed_for_layers(ids, x);
}

/// Gemma's per-layer embeddings: (norm(projection(x) / sqrt(hidden)) + table * sqrt(width)) /
/// sqrt(2), the norm over the columns of each layer.
void Target::State::embed_for_layers(const Indices& ids, const View& x) {
  const ModelConfig& c = model.config;
  const View inputs = layer_inputs.rows(x.rows), token = layer_tokens.rows(x.rows);
  const Projection projection[] = {{model.layer_projection.get(), inputs}};
  backend.linear({.input = x, .outputs = projection});
  backend.scale(inputs, 1.0F / std::sqrt(static_cast<float>(c.hidden)));
  const View parts{inputs.data, x.rows * c.layers, c.per_layer_input, c.per_layer_input};
  backend.rms_norm(parts, model.layer_projection_norm.view(), c.norm_epsilon, parts);
  backend.embed(*model.layer_embedding, ids, token);
  backend.scale(token, std::sqrt(static_cast<float>(c.per_layer_input)));
  backend.add(inputs, token, inputs);
  backend.scale(inputs, std::sqrt(0.5F));
}

void Target::State::final_norm(const View& x, const View& out) {
  const ModelConfig& c = model.config;
  if (c.final_norm == LayerPlan::Norm::rms) {
    backend.rms_norm(x, model.final_norm.view(), c.norm_epsilon, out);
  } else {
    backend.layer_norm(x, model.final_norm.view(), model.final_norm_bias.view(), c.norm_epsilon,
                       out);
  }
}

/// Copies the residual stream x, as it enters `layer`, to every tap that wants it.
void Target::State::tap(int layer, const View& x) {
  const int hidden = model.config.hidden;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    if (taps[i].layer != layer) continue;
    const View to = features.rows(x.rows).col_range(static_cast<int>(i) * hidden, hidden);
    if (layer == FeatureTap::kFinalNorm) {
      final_norm(x, to);
    } else {
      backend.copy(x, to);
    }
  }
}

void Target::State::multiply_out(const View& x, const View& out) {
  const Projection output[] = {{&model.output_weight(), out, model.output_bias.view()}};
  if (!model.output_inner) return backend.linear({.input = x, .outputs = output});
  const View between = logits_inner.rows(x.rows);
  const Projection inner[] = {{model.output_inner.get(), between, model.output_inner_bias.view()}};
  backend.linear({.input = x, .outputs = inner});
  backend.linear({.input = between, .transform = InputTransform::gelu_erf, .outputs = output});
}

/// Final norm and output matrix, for the rows that asked only.
View Target::State::compute_logits(std::span<const SequenceRows> batch, int rows,
                                   std::vector<int>& first_logits_row) {
  wanted.clear();
  int row = 0;
  for (const SequenceRows& part : batch) {
    first_logits_row.push_back(static_cast<int>(wanted.size()));
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
    if (model.output_inner) logits_inner = backend.allocate(count, model.output_inner->rows);
    logits = backend.allocate(count, model.config.vocabulary);  // last: it says how many there are
  }
  const View normed = logit_rows.rows(count);
  const View out = logits.rows(count);
  backend.gather_rows(residual.rows(rows), wanted_list.put(wanted), normed);
  final_norm(normed, normed);
  multiply_out(normed, out);
  if (model.config.logit_scale != 1) backend.scale(out, model.config.logit_scale);
  if (model.config.logit_cap > 0) backend.soft_cap(out, model.config.logit_cap);
  return out;
}

}  // namespace talon
