#include <algorithm>
#include <iterator>

#include "convert/gguf_keys.h"

namespace talon {
namespace {

struct Names {
  std::string_view family, architecture;
};
constexpr Names kArchitectures[] = {
    {"llama", "llama"},
    {"mistral", "llama"},
    {"ministral", "llama"},
    {"mixtral", "llama"},
    {"ministral3", "mistral3"},
    {"mistral4", "mistral4"},
    {"mistral3", "mistral3"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen2_moe", "qwen2moe"},
    {"qwen3_moe", "qwen3moe"},
    {"qwen2_vl", "qwen2vl"},
    {"qwen2_vl_text", "qwen2vl"},
    {"qwen2_5_vl", "qwen2vl"},
    {"qwen2_5_vl_text", "qwen2vl"},
    {"qwen2_5_omni_text", "qwen2vl"},
    {"qwen3_omni_moe_text", "qwen3vlmoe"},
    {"qwen3_vl", "qwen3vl"},
    {"qwen3_vl_text", "qwen3vl"},
    {"qwen3_vl_moe", "qwen3vlmoe"},
    {"qwen3_vl_moe_text", "qwen3vlmoe"},
    {"gpt_oss", "gpt-oss"},
    {"phi3", "phi3"},
    {"phimoe", "phimoe"},
    {"smollm3", "smollm3"},
    {"olmo2", "olmo2"},
    {"olmo3", "olmo2"},
    {"granite", "granite"},
    {"granitemoe", "granitemoe"},
    {"granitemoeshared", "granitemoe"},
    {"minicpm", "minicpm"},
    {"hunyuan_v1_dense", "hunyuan-dense"},
    {"glm", "chatglm"},
    {"glm4", "glm4"},
    {"glm4v", "glm4"},
    {"glm4v_text", "glm4"},
    {"glm4_moe", "glm4moe"},
    {"glm4v_moe", "glm4moe"},
    {"glm4v_moe_text", "glm4moe"},
    {"apertus", "apertus"},
    {"internlm3", "llama"},
    {"iquestcoder", "llama"},
    {"minimax_m2", "minimax-m2"},
    {"hunyuan_v1_moe", "hunyuan-moe"},
    {"hy_v3", "hy_v3"},
    {"exaone_moe", "exaone-moe"},
    {"dots1", "dots1"},
    {"afmoe", "afmoe"},
    {"solar_open", "glm4moe"},
    {"mellum", "mellum"},
    {"bailing_moe", "bailingmoe2"},
    {"bailing_moe_v2", "bailingmoe2"},
    {"cohere", "command-r"},
    {"cohere2", "cohere2"},
    {"starcoder2", "starcoder2"},
    {"stablelm", "stablelm"},
    {"arcee", "arcee"},
    {"nemotron", "nemotron"},
    {"phi", "phi2"},
    {"gpt_neox", "gptneox"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3"},
    {"gemma3_text", "gemma3"},
    {"gemma4", "gemma4"},
    {"gemma4_text", "gemma4"},
    {"gemma4_unified", "gemma4"},
    {"gemma4_unified_text", "gemma4"},
    {"mimo_v2_flash", "mimo2"},
    {"olmoe", "olmoe"},
    {"exaone4", "exaone4"},
    {"exaone4_5", "exaone4"},
    {"exaone4_5_text", "exaone4"},
    {"seed_oss", "seed_oss"},
    {"ernie4_5", "ernie4_5"},
    {"ernie4_5_moe", "ernie4_5-moe"},
    {"glm4_moe_lite", "deepseek2"},
    {"llama4", "llama4"},
    {"llama4_text", "llama4"},
    {"deepseek_v2", "deepseek2"},
    {"deepseek_v3", "deepseek2"},
    {"kimi_k2", "deepseek2"},
    {"falcon_h1", "falcon-h1"},
    {"lfm2", "lfm2"},
    {"lfm2_moe", "lfm2moe"},
    {"qwen3_next", "qwen3next"},
    {"qwen3_5", "qwen35"},
    {"qwen3_5_text", "qwen35"},
    {"qwen3_5_moe", "qwen35moe"},
    {"qwen3_5_moe_text", "qwen35moe"},
};

bool keeps_state(const LayerPlan& plan) { return plan.recurrent.value_heads > 0; }

}  // namespace

std::string_view gguf_architecture(const ModelConfig& config) {
  const std::string_view family = config.architecture;
  if (family == "granitemoehybrid") {
    if (std::ranges::any_of(config.plans, keeps_state)) return "granitehybrid";
    return config.plans[0].experts.count > 0 ? "granitemoe" : "granite";
  }
  if (family == "nemotron_h") return config.has_experts() ? "nemotron_h_moe" : "nemotron_h";
  for (const Names& names : kArchitectures) {
    if (names.family == family) return names.architecture;
  }
  return {};
}

bool has_prediction_layer(std::string_view architecture) {
  constexpr std::string_view kNames[] = {"glm4moe", "qwen35", "qwen35moe"};
  return std::ranges::find(kNames, architecture) != std::end(kNames);
}

}  // namespace talon
