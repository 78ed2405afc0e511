#include <cmath>
#include <string>

#include "core/error.h"
#include "model/config/family_helpers.h"

// GGUF keys of the families of later_families.cpp. InternLM 3 is Llama there, Solar Open GLM-4.5.
namespace talon {

const std::string_view kLaterArchitectures =
    "apertus, minimax-m2, hunyuan-moe, hy_v3, exaone-moe, dots1, afmoe, mellum, bailingmoe2";

namespace {

/// The numbers of its activation lie under keys that are not the architecture's; the loader reads
/// them.
void read_gguf_apertus(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  constexpr double kLargest = 1e6;
  norm_each_head(config);
  each_plan(config, [](LayerPlan& plan) { plan.activation = InputTransform::xielu; });
  for (const char* name : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    const auto all = keys.numbers(name, -kLargest, kLargest, config.plans.size());
    if (all.empty()) keys.refuse(name, "a number of each layer");
  }
}

/// Chosen by a sigmoid with a bias, in files that say so or nothing.
ExpertPlan biased_gguf_experts(const ConfigKeys& keys, const ModelConfig& config) {
  const std::string score = gguf_key(config, "expert_gating_func");
  if (keys.integer_or(score, 1, 2, 2) != 2) keys.refuse(score, "2: a sigmoid");
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = experts.group_by_two = true;
  return experts;
}

void read_gguf_minimax_m2(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = LayerPlan::HeadNorm::per_row; });
  ExpertPlan experts = biased_gguf_experts(keys, config);
  experts.renormalize = true;
  plan_experts(config, experts, [](int) { return true; });
}

void read_gguf_hunyuan_moe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) {
    plan.head_norm = LayerPlan::HeadNorm::after_rope;
    plan.head_norm_weights = true;
  });
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = true;
  experts.shared_width = keys.integer_or(gguf_key(config, "expert_shared_feed_forward_length"), 1,
                                         ConfigLimits::kWidth, config.intermediate);
  plan_experts(config, experts, [](int) { return true; });
}

/// Which layers have experts their routers tell.
void read_gguf_hy_v3(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  norm_each_head(config);
  ExpertPlan experts = biased_gguf_experts(keys, config);
  experts.renormalize = keys.flag_or(gguf_key(config, "expert_weights_norm"), false);
  experts.scale =
      static_cast<float>(keys.number_or(gguf_key(config, "expert_weights_scale"), 1e-6, 1e6, 1));
  experts.shared_width = keys.integer_or(gguf_key(config, "expert_shared_feed_forward_length"), 1,
                                         ConfigLimits::kWidth, experts.width);
  plan_experts(config, experts, [&](int i) {
    return checkpoint.find(fmt::format("blk.{}.ffn_gate_inp.weight", i)) != nullptr;
  });
}

void read_gguf_exaone_moe(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          ModelConfig& config) {
  norm_each_head(config);
  gguf_window_by_pattern(keys, config, 4);
  if (config.sliding_window > 0) still_full_layers(config);
  read_gguf_grouped_experts(keys, checkpoint, config);
}

void read_gguf_dots1(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  norm_each_head(config);
  read_gguf_grouped_experts(keys, checkpoint, config);
}

/// Embeddings are scaled in every file, experts weighed by a sigmoid where it says nothing.
void read_gguf_afmoe(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const std::string window = gguf_key(config, "attention.sliding_window");
  if (keys.integer_or(window, 0, INT32_MAX, 0) == 0) keys.refuse(window, "a window");
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.forms.gate_apart = true;
  norm_each_head(config);
  gguf_window_by_pattern(keys, config, 4);
  still_full_layers(config);
  each_plan(config, [](LayerPlan& plan) { plan.post_norms = plan.output_gate = true; });
  read_gguf_grouped_experts(keys, checkpoint, config);
}

void read_gguf_mellum(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  norm_each_head(config);
  gguf_window_by_pattern(keys, config, 4);
  if (config.sliding_window > 0) {
    local_rope_where_windowed(config, plain_rope(gguf_local_base(keys, config, config.rope.base)));
  }
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.renormalize = true;
  plan_experts(config, experts, [](int) { return true; });
}

void read_gguf_bailing_moe(const ConfigKeys& keys, const Checkpoint& checkpoint,
                           ModelConfig& config) {
  norm_each_head(config);
  config.forms.fused_qkv = true;
  read_gguf_grouped_experts(keys, checkpoint, config);
}

constexpr GgufFamily kLaterGgufFamilies[] = {
    {"apertus", read_gguf_apertus},
    {"minimax-m2", read_gguf_minimax_m2},
    {"hunyuan-moe", read_gguf_hunyuan_moe},
    {"hy_v3", read_gguf_hy_v3},
    {"exaone-moe", read_gguf_exaone_moe},
    {"dots1", read_gguf_dots1},
    {"afmoe", read_gguf_afmoe},
    {"mellum", read_gguf_mellum},
    {"bailingmoe2", read_gguf_bailing_moe},
};

}  // namespace

const GgufFamily* gguf_later_family(std::string_view architecture) {
  for (const GgufFamily& family : kLaterGgufFamilies) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

}  // namespace talon
