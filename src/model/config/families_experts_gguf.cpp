#include <cmath>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {

const std::string_view kExpertArchitectures =
    "qwen2moe, qwen3moe, qwen3vlmoe, gpt-oss, granitemoe, glm4moe, llama4, "
    "deepseek2, gemma4, mimo2, mistral4, olmoe, ernie4_5-moe";

namespace {

using Limits = ConfigLimits;
using HeadNorm = LayerPlan::HeadNorm;

std::string key(const ModelConfig& config, std::string_view name) { return gguf_key(config, name); }

bool every_layer(int) { return true; }

void read_qwen3moe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  norm_each_head(config);
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = true;
  plan_experts(config, experts, every_layer);
}

void read_qwen2moe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_qwen_experts(keys, config, false);
}

void read_olmoe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = HeadNorm::per_row; });
  plan_experts(config, read_gguf_experts(keys, config), every_layer);
}

/// The file says how wide the shared expert is by a number that is right for the makers' models
/// alone; how many experts it is made of is always right.
void read_ernie4_5_moe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  config.interleaved_rope = true;
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.choice_bias = experts.renormalize = true;
  experts.shared_width =
      experts.width * keys.integer_or(key(config, "expert_shared_count"), 0, 64, 0);
  const int dense =
      keys.integer_or(key(config, "leading_dense_block_count"), 0, Limits::kLayers, 0);
  const int every =
      keys.integer_or(key(config, "interleave_moe_layer_step"), 1, Limits::kLayers, 1);
  plan_experts(config, experts, [&](int i) { return i >= dense && (i + 1) % every == 0; });
}

/// The makers do not round the borders of YaRN's ramp; the files do not say so.
void read_gpt_oss(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  config.rope.truncate = false;
  each_plan(config, [](LayerPlan& plan) {
    plan.sinks = true;
    plan.activation = InputTransform::clamped_swiglu;
  });
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = experts.biases = true;
  plan_experts(config, experts, every_layer);
  gguf_window_by_pattern(keys, config, 2);
}

/// Older files do not say how experts are grouped: DeepSeek V2's and V3's are, and those of models
/// trained on them.
void group_experts(const ModelConfig& config, ExpertPlan& experts) {
  if (config.architecture != "deepseek2") return;
  const bool v3 = config.layers == 61 && experts.count == 256;
  const bool v2 = config.layers == 60 && experts.count == 160;
  if (!v3 && !v2) return;
  experts.groups = 8;
  experts.groups_used = v3 ? 4 : 3;
}

void read_glm4moe(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  config.qk_norm = checkpoint.find("blk.0.attn_q_norm.weight") != nullptr;
  each_plan(config, [&](LayerPlan& plan) {
    if (config.qk_norm) plan.head_norm = HeadNorm::per_head;
  });
  read_gguf_grouped_experts(keys, checkpoint, config);
}

/// Chunks, and factors of queries in the layers without rotation, are constants of the
/// architecture; the model of 128 experts has no norms of heads.
void read_llama4(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  constexpr int kChunk = 8192;
  config.interleaved_rope = true;
  config.query_scaling = {0.1, 8192, 1};
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.score = RouteArgs::Score::sigmoid;
  experts.weigh_input = true;
  experts.shared_width = experts.width;
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    LayerPlan& plan = config.plans[i];
    if ((i + 1) % 4 == 0) {
      plan.rope = LayerPlan::Rope::none;
      plan.scales_queries = true;
      continue;
    }
    plan.chunk = kChunk;
    if (experts.count != 128) plan.head_norm = HeadNorm::after_rope;
  }
  const int step = keys.integer_or(key(config, "interleave_moe_layer_step"), 1, Limits::kLayers, 1);
  plan_experts(config, experts, [&](int i) { return (i + 1) % step == 0; });
}

/// The key of a head's size. Older files hold the matrices of keys and values in one and speak of
/// the heads that these make, newer ones under another name: there the plain one is of the latents.
std::string key_of_length(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          const ModelConfig& config, std::string_view name) {
  const std::string plain = key(config, name), mla = plain + "_mla";
  const bool whole =
      checkpoint.find("blk.0.attn_kv_b.weight") && !checkpoint.find("blk.0.attn_k_b.weight");
  return whole && !keys.has(mla) ? plain : mla;
}

void read_deepseek2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const auto length = [&](std::string_view name) {
    return key_of_length(keys, checkpoint, config, name);
  };
  LatentPlan latent;
  latent.kv_rank = keys.integer(key(config, "attention.kv_lora_rank"), 1, Limits::kHeadDim);
  latent.q_rank = keys.integer_or(key(config, "attention.q_lora_rank"), 0, Limits::kWidth, 0);
  latent.rotary_dim = keys.integer(key(config, "rope.dimension_count"), 2, Limits::kHeadDim);
  const int head_dim =
      keys.integer(length("attention.key_length"), latent.rotary_dim + 1, 2 * Limits::kHeadDim);
  latent.plain_dim = head_dim - latent.rotary_dim;
  latent.output_dim = keys.integer(length("attention.value_length"), 1, Limits::kHeadDim);
  config.rope.rotary = latent.rotary_dim;
  config.interleaved_rope = true;
  config.kv_heads = 1;
  config.head_dim = latent.kv_rank + latent.rotary_dim;
  double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  if (config.rope.scaling == RopeConfig::Scaling::yarn) {
    // 0.1 * mscale_all_dim; the amplitude is that of equal exponents.
    const double exponent =
        10 * keys.number_or(key(config, "rope.scaling.yarn_log_multiplier"), 0, 1e3, 0);
    const double mscale = yarn_attention_factor(config.rope.factor, exponent);
    scale *= mscale * mscale;
    if (exponent != 0) config.rope.attention_factor = 1;
  }
  each_plan(config, [&](LayerPlan& plan) {
    plan.latent = latent;
    plan.kv_heads = 1;
    plan.head_dim = config.head_dim;
    plan.value_dim = latent.kv_rank;
    plan.score_scale = static_cast<float>(scale);
  });
  read_gguf_grouped_experts(keys, checkpoint, config);
}

/// Mistral Large 3 and Small 4, of which llama.cpp's converter says nothing for the latter: the
/// makers' model has the factor there, whose steps are as long as the original context.
void read_latent_query_scaling(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kUsual = 0.1;
  const double otherwise = config.architecture == "mistral4" ? kUsual : 0;
  const double beta = keys.number_or(key(config, "attention.temperature_scale"), 0, 1e3, otherwise);
  if (beta == 0) return;
  const std::string steps = key(config, "attention.temperature_length");
  const std::string original = key(config, "rope.scaling.original_context_length");
  scale_queries(config, beta, keys.number(keys.has(steps) ? steps : original, 1, 1e9));
}

void read_scaled_deepseek2(const ConfigKeys& keys, const Checkpoint& checkpoint,
                           ModelConfig& config) {
  read_deepseek2(keys, checkpoint, config);
  read_latent_query_scaling(keys, config);
}

/// A number for all layers or a list of each one's, which the architecture cannot do without.
std::vector<int> of_each_layer(const ConfigKeys& keys, const std::string& key, int high,
                               std::size_t layers) {
  auto values = keys.integers(key, 1, high, layers);
  if (values.size() != layers) keys.refuse(key, "an integer for each layer");
  return values;
}

void plan_gemma4_heads(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const auto count = static_cast<std::size_t>(config.layers);
  const int local_dim = keys.integer_or(key(config, "attention.key_length_swa"), 2,
                                        Limits::kHeadDim, config.head_dim);
  const auto kv_heads =
      of_each_layer(keys, key(config, "attention.head_count_kv"), Limits::kHeads, count);
  const auto widths =
      of_each_layer(keys, key(config, "feed_forward_length"), Limits::kWidth, count);
  for (std::size_t i = 0; i < count; ++i) {
    LayerPlan& plan = config.plans[i];
    plan.head_norm = HeadNorm::per_head;
    plan.value_norm = plan.output_scale = true;
    plan.score_scale = 1;
    plan.kv_heads = kv_heads[i];
    plan.intermediate = widths[i];
    if (plan.window > 0) {
      plan.head_dim = local_dim;
    } else {
      plan.keys_are_values = !checkpoint.find(fmt::format("blk.{}.attn_v.weight", i)) &&
                             !checkpoint.find(fmt::format("blk.{}.attn_qkv.weight", i));
    }
  }
}

void read_gemma4(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  read_gguf_gemma(keys, config);
  gguf_window_by_pattern(keys, config, 6);
  plan_gemma4_heads(keys, checkpoint, config);
  local_rope_where_windowed(config, plain_rope(gguf_local_base(keys, config, 10000)));
  share_last_layers(
      config, keys.integer_or(key(config, "attention.shared_kv_layers"), 0, config.layers - 1, 0));
  config.per_layer_input =
      keys.integer_or(key(config, "embedding_length_per_layer_input"), 0, Limits::kWidth, 0);
  each_plan(config, [&](LayerPlan& plan) {
    plan.per_layer_input = config.per_layer_input;
    if (!plan.writes_cache) plan.keys_are_values = false;
  });
  if (keys.integer_or(key(config, "expert_count"), 0, Limits::kExperts, 0) == 0) return;
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = experts.beside_dense = true;
  plan_experts(config, experts, every_layer);
}

constexpr GgufFamily kFamilies[] = {
    {"qwen2moe", read_qwen2moe},
    {"qwen3moe", read_qwen3moe},
    {"qwen3vlmoe", read_qwen3moe},
    {"gpt-oss", read_gpt_oss},
    {"granitemoe", read_gguf_granitemoe},
    {"glm4moe", read_glm4moe},
    {"llama4", read_llama4},
    {"deepseek2", read_scaled_deepseek2},
    {"mistral4", read_scaled_deepseek2},
    {"gemma4", read_gemma4},
    {"mimo2", read_gguf_mimo2},
    {"olmoe", read_olmoe},
    {"ernie4_5-moe", read_ernie4_5_moe},
};

}  // namespace

void read_gguf_granitemoe(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          ModelConfig& config) {
  read_gguf_granite(keys, checkpoint, config);
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = true;
  experts.shared_width =
      keys.integer_or(key(config, "expert_shared_feed_forward_length"), 0, Limits::kWidth, 0);
  plan_experts(config, experts, every_layer);
}

ExpertPlan read_gguf_experts(const ConfigKeys& keys, const ModelConfig& config) {
  ExpertPlan experts;
  experts.count = keys.integer(key(config, "expert_count"), 1, Limits::kExperts);
  experts.used = keys.integer(key(config, "expert_used_count"), 1, experts.count);
  experts.width = keys.integer_or(key(config, "expert_feed_forward_length"), 1, Limits::kWidth,
                                  config.intermediate);
  return experts;
}

/// DeepSeek's routing, which GLM's models share. Where a file does not name the function, as one of
/// GLM-4.7-Flash, the bias of the choice tells the sigmoid.
void read_gguf_grouped_experts(const ConfigKeys& keys, const Checkpoint& checkpoint,
                               ModelConfig& config) {
  ExpertPlan experts = read_gguf_experts(keys, config);
  const int dense =
      keys.integer_or(key(config, "leading_dense_block_count"), 0, Limits::kLayers, 0);
  const bool has_bias = checkpoint.find(fmt::format("blk.{}.exp_probs_b.bias", dense)) != nullptr;
  if (keys.integer_or(key(config, "expert_gating_func"), 1, 2, has_bias ? 2 : 1) == 2) {
    experts.score = RouteArgs::Score::sigmoid;
    experts.choice_bias = experts.group_by_two = true;
  }
  experts.renormalize = keys.flag_or(key(config, "expert_weights_norm"), false);
  experts.scale =
      static_cast<float>(keys.number_or(key(config, "expert_weights_scale"), 1e-6, 1e6, 1));
  const std::string groups = key(config, "expert_group_count");
  experts.groups = keys.integer_or(groups, 1, experts.count, 1);
  experts.groups_used =
      keys.integer_or(key(config, "expert_group_used_count"), 1, experts.groups, 1);
  if (!keys.has(groups)) group_experts(config, experts);
  const int shared = keys.integer_or(key(config, "expert_shared_count"), 0, 64, 0);
  experts.shared_width = experts.width * shared;
  plan_experts(config, experts, [&](int i) { return i >= dense; });
}

/// Without widths, as in files of Qwen 1.5's first days, the shared expert has that of the dense
/// network, which the experts in use have together.
void read_gguf_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize) {
  ExpertPlan experts = read_gguf_experts(keys, config);
  if (!keys.has(key(config, "expert_feed_forward_length"))) {
    experts.width = std::max(1, config.intermediate / experts.used);
  }
  experts.renormalize = renormalize;
  experts.shared_width = keys.integer_or(key(config, "expert_shared_feed_forward_length"), 1,
                                         Limits::kWidth, config.intermediate);
  experts.shared_gate = true;
  plan_experts(config, experts, every_layer);
}

const GgufFamily* gguf_expert_family(std::string_view architecture) {
  for (const GgufFamily& family : kFamilies) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

}  // namespace talon
