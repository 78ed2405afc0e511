#include "convert/same_model.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/json.h"
#include "model/rope.h"

namespace talon {
namespace {

/// What can be told apart, by the words of messages. Numbers are floats, as GGUF keeps them.
using ModelFacts = std::vector<std::pair<std::string, Json>>;

Json rounded(double value) { return static_cast<float>(value); }

template <typename Enum>
Json word(Enum value) {
  return static_cast<int>(value);
}

/// cos and sin of a few positions: they tell any difference between two rotations.
Json angles(RopeConfig rope, int width, const std::vector<float>& divisors) {
  constexpr int kRows[] = {1, 1000};
  rope.frequency_divisors = divisors;
  Json values = Json::array();
  for (const int row : kRows) {
    for (const float value : RopeAngles(rope, width).rows(row, 1)) {
      values.push_back(std::round(value * 1e5));
    }
  }
  return values;
}

void add_rope(const RopeConfig& rope, const ModelConfig& config, LayerPlan::Rope kind,
              const std::string& name, ModelFacts& facts) {
  const auto used = [&](const LayerPlan& plan) { return plan.rope == kind; };
  if (std::ranges::none_of(config.plans, used)) return;
  const int width = rope_width(rope, config, kind);
  facts.emplace_back(name + " columns", width);
  if (rope.scaling != RopeConfig::Scaling::longrope) {
    facts.emplace_back(name + " angles", angles(rope, width, rope.frequency_divisors));
    return;
  }
  facts.emplace_back(name + " original context", rounded(rope.original_context));
  facts.emplace_back(name + " angles of short texts", angles(rope, width, rope.short_divisors));
  facts.emplace_back(name + " angles of long texts", angles(rope, width, rope.long_divisors));
}

ModelFacts facts_of(const ModelConfig& c) {
  const bool scales = std::ranges::any_of(c.plans, &LayerPlan::scales_queries);
  ModelFacts facts = {{"number of layers", c.layers},
                      {"hidden size", c.hidden},
                      {"vocabulary", c.vocabulary},
                      {"context", c.context},
                      {"norm epsilon", rounded(c.norm_epsilon)},
                      {"tied output", c.tied_output},
                      {"embedding scale", rounded(c.embedding_scale)},
                      {"logit scale", rounded(c.logit_scale)},
                      {"cap of logits", rounded(c.logit_cap)},
                      {"per-layer embedding size", c.per_layer_input},
                      {"final norm", word(c.final_norm)},
                      {"bias of the final norm", c.final_norm_bias},
                      {"bias of the output matrix", c.output_matrix_bias}};
  if (scales) {
    facts.emplace_back(
        "query scaling",
        Json{rounded(c.query_scaling.beta), rounded(c.query_scaling.floor), c.query_scaling.shift});
  }
  add_rope(c.rope, c, LayerPlan::Rope::global, "rotary", facts);
  if (c.local_rope) {
    add_rope(*c.local_rope, c, LayerPlan::Rope::local, "rotary (windowed layers)", facts);
  }
  return facts;
}

void add_experts(const ExpertPlan& e, ModelFacts& facts) {
  facts.insert(facts.end(), {{"number of experts", e.count},
                             {"experts of a token", e.used},
                             {"expert width", e.width},
                             {"router's score", word(e.score)},
                             {"jitter of the router", rounded(e.jitter)},
                             {"renormalized expert weights", e.renormalize},
                             {"scale of expert weights", rounded(e.scale)},
                             {"groups of experts", e.groups},
                             {"groups in use", e.groups_used},
                             {"score of a group", e.group_by_two && e.groups_used < e.groups},
                             {"weights of experts' inputs", e.weigh_input},
                             {"bias of the choice", e.choice_bias},
                             {"biases of experts", e.biases},
                             {"width of the shared expert", e.shared_width},
                             {"gate of the shared expert", e.shared_gate},
                             {"experts beside a dense network", e.beside_dense}});
}

ModelFacts facts_of(const LayerPlan& p, int context) {
  ModelFacts facts = {
      {"key-value heads", p.kv_heads},
      {"query heads", p.heads},
      {"head size", p.head_dim},
      {"size of values", p.values()},
      {"scale of values", rounded(p.value_scale)},
      {"feed-forward width", p.intermediate},
      {"window of attention", p.window >= context ? 0 : p.window},
      {"chunk of attention", p.chunk >= context ? 0 : p.chunk},
      {"rotation", word(p.rope)},
      {"scale of scores",
       rounded(p.score_scale > 0 ? p.score_scale : 1 / std::sqrt(double(p.head_dim)))},
      {"cap of scores", rounded(p.soft_cap)},
      {"queries scaled by position", p.scales_queries},
      {"sinks", p.sinks},
      {"kind of norms", word(p.norm)},
      {"biases of norms", p.norm_bias},
      {"norms before", p.pre_norms},
      {"norms behind", p.post_norms},
      {"norms of heads", word(p.head_norm)},
      {"weights of norms behind the rotation", p.head_norm_weights},
      {"biases of norms of heads", p.head_norm_bias},
      {"norm of values", p.value_norm},
      {"keys as values", p.keys_are_values},
      {"biases of q, k, v", p.qkv_bias},
      {"bias of the attention's output", p.output_bias},
      {"biases of the feed-forward network", p.mlp_bias},
      {"parallel halves", p.parallel},
      {"activation", word(p.activation)},
      {"residual scale", rounded(p.residual_scale)},
      {"layer of the cache", p.cache_layer},
      {"writes the cache", p.writes_cache},
      {"per-layer input", p.per_layer_input},
      {"learned scale", p.output_scale},
      {"gate of attention", p.output_gate}};
  if (p.experts.count > 0) add_experts(p.experts, facts);
  const LatentPlan& l = p.latent;
  facts.emplace_back("latents", Json{l.kv_rank, l.q_rank, l.plain_dim, l.rotary_dim, l.output_dim});
  const RecurrentPlan& r = p.recurrent;
  facts.emplace_back("state", Json{r.key_heads, r.value_heads, r.key_dim, r.value_dim, r.kernel});
  facts.emplace_back("attention", p.attends);
  facts.emplace_back("factors of matrices", p.factors != MatrixFactors{});
  facts.emplace_back("rule of the state", word(r.rule));
  facts.emplace_back("norm of the state's result", r.norm);
  facts.emplace_back("bias of the state's convolution", r.filter_bias);
  facts.emplace_back("least step of the state", rounded(r.steps.least));
  facts.emplace_back("largest step of the state",
                     std::isinf(r.steps.most) ? Json("none") : rounded(r.steps.most));
  return facts;
}

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 8;
  return value.is_array() && value.size() > kMost ? "other values" : value.dump();
}

void compare(const ModelFacts& model, const ModelFacts& gguf, std::string_view doing) {
  const std::size_t count = std::min(model.size(), gguf.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, value] = model[i];
    if (name == gguf[i].first && value == gguf[i].second) continue;
    const bool same_fact = name == gguf[i].first;
    fail(
        "{}: {}: expected {} as in the model, found {} in all that a GGUF of this architecture "
        "can say",
        doing, name, shown(value), same_fact ? shown(gguf[i].second) : gguf[i].first);
  }
  expects(model.size() == gguf.size(), "facts of one kind");
}

}  // namespace

void check_same_model(const ModelConfig& model, const ModelConfig& gguf, std::string_view doing) {
  compare(facts_of(model), facts_of(gguf), doing);
  for (std::size_t i = 0; i < model.plans.size(); ++i) {
    compare(facts_of(model.plans[i], model.context), facts_of(gguf.plans[i], gguf.context),
            fmt::format("{}: layer {}", doing, i));
  }
}

}  // namespace talon
