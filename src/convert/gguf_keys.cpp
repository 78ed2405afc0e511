#include "convert/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

/// What the values of keys are made of.
struct Facts {
  const ModelConfig& config;
  std::string_view architecture;
  bool predicts = false;                 // a prediction layer follows
  const LayerPlan* dense = nullptr;      // the first with a dense network
  const LayerPlan* attention = nullptr;  // the first that attends, of full ones if there are any
  const LayerPlan* local = nullptr;      // the first that attends by the local rotation
  const LayerPlan* expert = nullptr;     // the first with experts
  const LayerPlan* state = nullptr;      // the first with a state

  bool is(std::initializer_list<std::string_view> names) const {
    return std::ranges::find(names, architecture) != names.end();
  }
};

Facts facts_of(const ModelConfig& config, std::string_view architecture, bool predicts) {
  Facts facts{config, architecture, predicts};
  const auto first = [](const LayerPlan*& place, bool holds, const LayerPlan& plan) {
    if (holds && !place) place = &plan;
  };
  for (const LayerPlan& plan : config.plans) {
    const bool local = plan.attends && plan.rope == LayerPlan::Rope::local;
    first(facts.dense, plan.intermediate > 0, plan);
    first(facts.attention, plan.attends && !local, plan);
    first(facts.local, local, plan);
    first(facts.expert, plan.experts.count > 0, plan);
    first(facts.state, plan.recurrent.value_heads > 0, plan);
  }
  if (!facts.attention) facts.attention = facts.local;
  return facts;
}

Json count(int value) { return static_cast<unsigned>(value); }
/// A key that says nothing where it is 0.
Json count_if(int value) { return value > 0 ? count(value) : Json(); }
Json real(double value) { return value; }
Json real_if(double value) { return value > 0 ? real(value) : Json(); }

/// One number where all layers have it, else one for each.
template <typename Of>
Json of_layers(const ModelConfig& config, const Of& of) {
  Json all = Json::array();
  for (const LayerPlan& plan : config.plans) all.push_back(count(of(plan)));
  const bool alike = std::ranges::all_of(all, [&](const Json& one) { return one == all[0]; });
  return alike ? all[0] : all;
}

bool is_nemotron_h(const Facts& f) { return f.is({"nemotron_h", "nemotron_h_moe"}); }

Json feed_forward_length(const Facts& f) {
  const auto width = [](const LayerPlan& p) { return std::max(p.intermediate, p.experts.width); };
  if (is_nemotron_h(f)) return of_layers(f.config, width);
  if (!f.dense) return count(f.config.intermediate);
  const bool all = std::ranges::all_of(f.config.plans,
                                       [](const LayerPlan& plan) { return plan.intermediate > 0; });
  if (!all) return count(f.dense->intermediate);
  return of_layers(f.config, [](const LayerPlan& plan) { return plan.intermediate; });
}

bool is_yarn(const Facts& f) { return f.config.rope.scaling == RopeConfig::Scaling::yarn; }
bool is_longrope(const Facts& f) { return f.config.rope.scaling == RopeConfig::Scaling::longrope; }

/// DeepSeek's, and that of Mistral's model with latents.
bool is_of_deepseek(const Facts& f) { return f.is({"deepseek2", "mistral4"}); }

/// Architectures that say YaRN's amplitude by one exponent for both of its parts.
bool has_log_multiplier(const Facts& f) {
  return is_yarn(f) && (is_of_deepseek(f) || f.is({"mistral3"})) &&
         f.config.rope.attention_factor == 1;
}

Json scaling_type(const Facts& f) {
  if (is_yarn(f)) return "yarn";
  if (f.config.rope.scaling == RopeConfig::Scaling::linear) return "linear";
  return {};
}

/// DeepSeek's scores are scaled by the square of YaRN's amplitude for this exponent.
Json log_multiplier(const Facts& f) {
  if (!has_log_multiplier(f)) return {};
  if (!is_of_deepseek(f)) return real(1);
  const LatentPlan& latent = f.attention->latent;
  const double plain = 1.0 / std::sqrt(static_cast<double>(latent.plain_dim + latent.rotary_dim));
  const double mscale = std::sqrt(f.attention->score_scale / plain);
  const double exponent = (mscale - 1) / (0.1 * std::log(f.config.rope.factor));
  return real(std::round(exponent * 1e4) / 1e5);
}

/// The amplitude, where it is not YaRN's own.
double stated_amplitude(const Facts& f) {
  const RopeConfig& rope = f.config.rope;
  if (!is_yarn(f) || has_log_multiplier(f)) return 0;
  return rope.attention_factor == yarn_attention_factor(rope.factor) ? 0 : rope.attention_factor;
}

/// To llama.cpp a factor of YaRN's own amplitude, which the other key is to Talon.
Json attention_factor(const Facts& f) {
  if (is_longrope(f)) return real(f.config.rope.attention_factor);
  const double amplitude = stated_amplitude(f);
  if (amplitude == 0) return {};
  return real(amplitude / yarn_attention_factor(f.config.rope.factor));
}

/// A float whose reciprocal is `value`.
Json reciprocal(float value) {
  const float near = 1.0F / value;
  for (const float other : {near, std::nextafter(near, 0.0F), std::nextafter(near, 2 * near)}) {
    if (1.0F / other == value) return real(other);
  }
  return real(near);
}

bool is_granite(const Facts& f) { return f.is({"granite", "granitemoe", "granitehybrid"}); }

/// What Granite says, of which MiniCPM has no scale of scores.
Json of_multipliers(const Facts& f, float value) {
  return is_granite(f) || f.is({"minicpm"}) ? real(value) : Json();
}
Json of_granite(const Facts& f, float value) { return is_granite(f) ? real(value) : Json(); }

/// A file of MiniCPM that does not name it may be one of the first days.
Json logit_scale(const Facts& f) {
  if (f.config.logit_scale == 1 && !f.is({"minicpm"})) return {};
  if (is_granite(f) || f.is({"minicpm"})) return reciprocal(f.config.logit_scale);
  return real(f.config.logit_scale);
}

/// A file of Phi's that does not name it may be one of the first days.
Json sliding_window(const Facts& f) {
  return f.is({"phi3", "phimoe"}) ? count(f.config.sliding_window)
                                  : count_if(f.config.sliding_window);
}

Json windows(const Facts& f) {
  const bool lists = f.is({"olmo2", "gemma4", "mimo2", "exaone4", "exaone-moe", "afmoe", "mellum"});
  if (f.config.sliding_window == 0 || !lists) return {};
  Json slides = Json::array();
  for (const LayerPlan& plan : f.config.plans) {
    const bool windowed = plan.window > 0;
    slides.push_back(f.is({"mimo2"}) ? Json(windowed ? 1 : 0) : Json(windowed));
  }
  return slides;
}

bool is_delta_net(const LayerPlan& plan) {
  return plan.recurrent.value_heads > 0 && plan.recurrent.rule == StateRule::gated_delta;
}

/// Other layers that do not attend are those without key-value heads.
int kv_heads(const LayerPlan& plan) {
  return plan.attends || is_delta_net(plan) ? plan.kv_heads : 0;
}

Json states(const Facts& f) {
  if (!f.state || !is_delta_net(*f.state)) return {};
  Json keeps = Json::array();
  for (const LayerPlan& plan : f.config.plans) keeps.push_back(plan.recurrent.value_heads > 0);
  if (f.predicts) keeps.push_back(false);
  return keeps;
}

Json attention_interval(const Facts& f) {
  if (!f.state || !is_delta_net(*f.state)) return {};
  const auto attends = [](const LayerPlan& plan) { return plan.recurrent.value_heads == 0; };
  const auto& plans = f.config.plans;
  return count(static_cast<int>(std::ranges::find_if(plans, attends) - plans.begin()) + 1);
}

/// Pairs that turn by time, height and width, which are one for text: every third of them.
Json rope_sections(const Facts& f) {
  if (!f.is({"qwen35", "qwen35moe", "qwen2vl", "qwen3vl", "qwen3vlmoe"})) return {};
  const int pairs = (f.config.rope.rotary > 0 ? f.config.rope.rotary : f.config.head_dim) / 2;
  return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
}

Json shared_layers(const Facts& f) {
  if (!f.is({"gemma4"})) return {};
  return count(static_cast<int>(std::ranges::count_if(
      f.config.plans, [](const LayerPlan& plan) { return !plan.writes_cache; })));
}

Json local_dim(const Facts& f) {
  return f.is({"gemma4"}) && f.local ? count(f.local->head_dim) : Json();
}

/// Architectures of later_families_gguf.cpp with all keys of DeepSeek's routing.
bool shares_routing(const Facts& f) {
  return f.is({"dots1", "exaone-moe", "afmoe", "bailingmoe2", "hy_v3"});
}

/// The experts' keys that DeepSeek's routing has, and those that share it.
template <typename Value>
Json of_groups(const Facts& f, const Value& value) {
  const bool has = is_of_deepseek(f) || is_nemotron_h(f) || shares_routing(f) ||
                   f.is({"glm4moe", "mimo2", "lfm2moe"});
  return f.expert && has ? value(f.expert->experts) : Json();
}
template <typename Value>
Json of_experts(const Facts& f, const Value& value) {
  return f.expert ? value(f.expert->experts) : Json();
}
bool convolves(const Facts& f) { return f.state && f.state->recurrent.shape().is_convolution(); }
template <typename Value>
Json of_states(const Facts& f, const Value& value) {
  return f.state && !convolves(f) ? value(f.state->recurrent) : Json();
}
template <typename Value>
Json of_latents(const Facts& f, const Value& value) {
  return f.attention->latent.kv_rank > 0 ? value(f.attention->latent) : Json();
}

Json shared_width(const Facts& f) {
  if (!f.expert || is_of_deepseek(f) || f.is({"glm4moe", "llama4", "dots1", "afmoe"})) return {};
  return count_if(f.expert->experts.shared_width);
}

Json leading_dense(const Facts& f) {
  const bool says =
      is_of_deepseek(f) || shares_routing(f) || f.is({"glm4moe", "ernie4_5-moe", "lfm2moe"});
  if (!f.expert || !says) return {};
  return count(static_cast<int>(f.expert - f.config.plans.data()));
}

/// Every so many layers have experts.
Json expert_step(const Facts& f) {
  if (!f.expert || !f.is({"llama4", "ernie4_5-moe"})) return {};
  const LayerPlan* const first = f.config.plans.data();
  if (f.is({"llama4"})) return count(static_cast<int>(f.expert - first) + 1);
  const LayerPlan* const end = first + f.config.plans.size();
  const auto has_experts = [](const LayerPlan& plan) { return plan.experts.count > 0; };
  const LayerPlan* const next = std::find_if(f.expert + 1, end, has_experts);
  return count(next == end ? 1 : static_cast<int>(next - f.expert));
}

/// A file of Mistral's model with latents that does not name the factor has the usual one.
Json query_factor(const Facts& f) {
  if (f.attention->scales_queries && (is_of_deepseek(f) || f.is({"mistral3"}))) {
    return real(f.config.query_scaling.beta);
  }
  return f.is({"mistral4"}) ? real(0) : Json();
}

/// How many positions have a factor; to `mistral3` as many as the original context has.
Json query_steps(const Facts& f) {
  if (!f.attention->scales_queries || !is_of_deepseek(f)) return {};
  return count(static_cast<int>(f.config.query_scaling.floor));
}

/// Nemotron-H names the epsilon of its RMSNorms as if they were LayerNorms, Phi-3.5-MoE that of its
/// LayerNorms as if they were RMSNorms.
Json norm_epsilon(const Facts& f, LayerPlan::Norm norm) {
  const bool is_usual = (f.config.final_norm == norm) != f.is({"phimoe"});
  const bool says = is_usual || is_nemotron_h(f);
  return says ? real(f.config.norm_epsilon) : Json();
}

/// Granite and Nemotron-H say by this key that no layer turns.
Json turns(const Facts& f) {
  const bool still = f.attention->rope == LayerPlan::Rope::none;
  return still && (is_granite(f) || is_nemotron_h(f)) ? Json(false) : Json();
}

Json rotary(const Facts& f) {
  return count(f.config.rope.rotary > 0 ? f.config.rope.rotary : f.attention->head_dim);
}

struct Key {
  std::string_view name;
  Json (*value)(const Facts&);  // null: the file does not have it
};

/// Below the architecture, in the order of the file.
constexpr Key kKeys[] = {
    {"block_count", [](const Facts& f) { return count(f.config.layers + (f.predicts ? 1 : 0)); }},
    {"nextn_predict_layers", [](const Facts& f) { return count_if(f.predicts ? 1 : 0); }},
    {"context_length", [](const Facts& f) { return count(f.config.context); }},
    {"embedding_length", [](const Facts& f) { return count(f.config.hidden); }},
    {"vocab_size", [](const Facts& f) { return count(f.config.vocabulary); }},
    {"feed_forward_length", feed_forward_length},
    {"attention.head_count", [](const Facts& f) { return count(f.config.heads); }},
    {"attention.head_count_kv",
     [](const Facts& f) {
       return of_layers(f.config, [](const LayerPlan& plan) { return kv_heads(plan); });
     }},
    {"attention.layer_norm_rms_epsilon",
     [](const Facts& f) { return norm_epsilon(f, LayerPlan::Norm::rms); }},
    {"attention.layer_norm_epsilon",
     [](const Facts& f) { return norm_epsilon(f, LayerPlan::Norm::layer); }},
    {"attention.key_length", [](const Facts& f) { return count(f.attention->head_dim); }},
    {"attention.value_length", [](const Facts& f) { return count(f.attention->values()); }},
    {"attention.key_length_swa", local_dim},
    {"attention.value_length_swa", local_dim},
    {"attention.q_lora_rank",
     [](const Facts& f) {
       return of_latents(f, [](const LatentPlan& l) { return count_if(l.q_rank); });
     }},
    {"attention.kv_lora_rank",
     [](const Facts& f) {
       return of_latents(f, [](const LatentPlan& l) { return count(l.kv_rank); });
     }},
    {"attention.key_length_mla",
     [](const Facts& f) {
       return of_latents(f, [](const LatentPlan& l) { return count(l.plain_dim + l.rotary_dim); });
     }},
    {"attention.value_length_mla",
     [](const Facts& f) {
       return of_latents(f, [](const LatentPlan& l) { return count(l.output_dim); });
     }},
    {"attention.sliding_window", sliding_window},
    {"attention.sliding_window_pattern", windows},
    {"attention.shared_kv_layers", shared_layers},
    {"attention.recurrent_layers", states},
    {"attention.value_scale",
     [](const Facts& f) {
       return f.attention->value_scale == 1 ? Json() : real(f.attention->value_scale);
     }},
    {"attention.scale", [](const Facts& f) { return of_granite(f, f.attention->score_scale); }},
    {"attention.temperature_scale", query_factor},
    {"attention.temperature_length", query_steps},
    {"attn_logit_softcapping", [](const Facts& f) { return real_if(f.attention->soft_cap); }},
    {"final_logit_softcapping", [](const Facts& f) { return real_if(f.config.logit_cap); }},
    {"logit_scale", logit_scale},
    {"embedding_scale", [](const Facts& f) { return of_multipliers(f, f.config.embedding_scale); }},
    {"residual_scale",
     [](const Facts& f) { return of_multipliers(f, f.attention->residual_scale); }},
    {"embedding_length_per_layer_input",
     [](const Facts& f) { return f.is({"gemma4"}) ? count(f.config.per_layer_input) : Json(); }},
    {"use_parallel_residual",
     [](const Facts& f) {
       return f.is({"gptneox", "stablelm"}) ? Json(f.attention->parallel) : Json();
     }},
    {"rope.dimension_count", rotary},
    {"rope.dimension_count_swa", local_dim},
    {"rope.dimension_sections", rope_sections},
    {"rope.freq_base", [](const Facts& f) { return real(f.config.rope.base); }},
    {"rope.freq_base_swa",
     [](const Facts& f) { return f.config.local_rope ? real(f.config.local_rope->base) : Json(); }},
    {"rope.scaling.finetuned", turns},
    {"rope.scaling.type", scaling_type},
    {"rope.scaling.factor",
     [](const Facts& f) {
       return scaling_type(f).is_null() ? Json() : real(f.config.rope.factor);
     }},
    {"rope.scaling.original_context_length",
     [](const Facts& f) {
       return is_yarn(f) || is_longrope(f) ? count(static_cast<int>(f.config.rope.original_context))
                                           : Json();
     }},
    {"rope.scaling.yarn_beta_fast",
     [](const Facts& f) { return is_yarn(f) ? real(f.config.rope.beta_fast) : Json(); }},
    {"rope.scaling.yarn_beta_slow",
     [](const Facts& f) { return is_yarn(f) ? real(f.config.rope.beta_slow) : Json(); }},
    {"rope.scaling.yarn_log_multiplier", log_multiplier},
    {"rope.scaling.yarn_attn_factor",
     [](const Facts& f) { return stated_amplitude(f) == 0 ? Json() : real(stated_amplitude(f)); }},
    {"rope.scaling.attn_factor", attention_factor},
    {"expert_count",
     [](const Facts& f) {
       return of_experts(f, [](const ExpertPlan& e) { return count(e.count); });
     }},
    {"expert_used_count",
     [](const Facts& f) {
       return of_experts(f, [](const ExpertPlan& e) { return count(e.used); });
     }},
    {"expert_feed_forward_length",
     [](const Facts& f) {
       return of_experts(f, [](const ExpertPlan& e) { return count(e.width); });
     }},
    {"expert_shared_feed_forward_length", shared_width},
    {"expert_shared_count",
     [](const Facts& f) {
       const auto value = [&](const ExpertPlan& e) {
         return count(is_nemotron_h(f) ? 1 : e.shared_width / e.width);
       };
       return f.is({"ernie4_5-moe", "hunyuan-moe"}) ? of_experts(f, value) : of_groups(f, value);
     }},
    {"expert_gating_func",
     [](const Facts& f) {
       const auto value = [](const ExpertPlan& e) {
         return count(e.score == RouteArgs::Score::sigmoid ? 2 : 1);
       };
       return f.is({"minimax-m2"}) ? of_experts(f, value) : of_groups(f, value);
     }},
    {"expert_weights_scale",
     [](const Facts& f) {
       return of_groups(f, [](const ExpertPlan& e) { return real(e.scale); });
     }},
    {"expert_weights_norm",
     [](const Facts& f) {
       return of_groups(f, [](const ExpertPlan& e) { return Json(e.renormalize); });
     }},
    {"expert_group_count",
     [](const Facts& f) {
       return of_groups(f, [](const ExpertPlan& e) { return count(e.groups); });
     }},
    {"expert_group_used_count",
     [](const Facts& f) {
       return of_groups(f, [](const ExpertPlan& e) { return count(e.groups_used); });
     }},
    {"leading_dense_block_count", leading_dense},
    {"interleave_moe_layer_step", expert_step},
    {"ssm.conv_kernel",
     [](const Facts& f) { return of_states(f, [](const auto& s) { return count(s.kernel); }); }},
    {"ssm.state_size",
     [](const Facts& f) { return of_states(f, [](const auto& s) { return count(s.key_dim); }); }},
    {"ssm.group_count",
     [](const Facts& f) { return of_states(f, [](const auto& s) { return count(s.key_heads); }); }},
    {"ssm.time_step_rank",
     [](const Facts& f) {
       return of_states(f, [](const auto& s) { return count(s.value_heads); });
     }},
    {"ssm.inner_size",
     [](const Facts& f) { return of_states(f, [](const auto& s) { return count(s.width()); }); }},
    {"shortconv.l_cache",
     [](const Facts& f) { return convolves(f) ? count(f.state->recurrent.kernel) : Json(); }},
    {"full_attention_interval", attention_interval},
};

}  // namespace

GgufMetadata gguf_keys_of(const ModelConfig& config, std::string_view architecture, bool predicts) {
  const Facts facts = facts_of(config, architecture, predicts);
  expects(facts.attention != nullptr, "a layer attends");
  GgufMetadata keys;
  for (const Key& key : kKeys) {
    Json value = key.value(facts);
    if (!value.is_null()) {
      keys.emplace_back(fmt::format("{}.{}", architecture, key.name), std::move(value));
    }
  }
  return keys;
}

}  // namespace talon
