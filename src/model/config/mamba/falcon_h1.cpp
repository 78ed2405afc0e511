#include "core/error.h"
#include "model/config/family_helpers.h"
#include "model/config/mamba/mamba_keys.h"

// Falcon-H1, each of whose layers has attention and Mamba-2 side by side. Folders keep factors of
// matrices apart from them.
namespace talon {
namespace {

constexpr double kLeastFactor = 1e-6, kLargestFactor = 1e6;

float factor_of(const ConfigKeys& keys, std::string_view key) {
  return static_cast<float>(keys.number_or(key, kLeastFactor, kLargestFactor, 1));
}

std::vector<float> factors_of(const ConfigKeys& keys, std::string_view key, std::size_t count) {
  std::vector<float> factors = keys.numbers(key, kLeastFactor, kLargestFactor, count);
  if (factors.empty()) factors.assign(count, 1.0F);
  return factors;
}

MatrixFactors read_factors(const ConfigKeys& keys) {
  const float attention = factor_of(keys, "attention_in_multiplier");
  const float state = factor_of(keys, "ssm_in_multiplier");
  const std::vector<float> network = factors_of(keys, "mlp_multipliers", 2);
  const std::vector<float> parts = factors_of(keys, "ssm_multipliers", 5);
  MatrixFactors factors;
  factors.q = factors.v = attention;
  factors.k = attention * factor_of(keys, "key_multiplier");
  factors.o = factor_of(keys, "attention_out_multiplier");
  factors.gate = network[0];
  factors.down = network[1];
  factors.state_gate = state * parts[0];
  factors.state_value = state * parts[1];
  factors.state_key = state * parts[2];
  factors.state_query = state * parts[3];
  factors.state_decay = state * parts[4];
  factors.state_o = factor_of(keys, "ssm_out_multiplier");
  return factors;
}

void keep_states_beside_attention(ModelConfig& config, const RecurrentPlan& plan) {
  int next = 0;
  each_plan(config, [&](LayerPlan& layer) {
    layer.recurrent = plan;
    layer.recurrent.layer = next++;
  });
}

}  // namespace

void read_falcon_h1(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kWidth = "mamba_d_ssm";
  constexpr std::string_view kNorm = "mamba_rms_norm", kBefore = "mamba_norm_before_gate";
  only_activation(keys, "silu");
  expect_flag(keys, "projectors_bias", false);
  RecurrentPlan plan = read_mamba(keys, config);
  if (keys.integer_or(kWidth, 1, ConfigLimits::kWidth, plan.width()) != plan.width()) {
    keys.refuse(kWidth, fmt::format("the {} columns of all heads", plan.width()));
  }
  plan.norm = keys.flag_or(kNorm, false);
  if (plan.norm && keys.flag_or(kBefore, true)) keys.refuse(kBefore, "false");
  const MatrixFactors factors = read_factors(keys);
  config.embedding_scale = factor_of(keys, "embedding_multiplier");
  config.logit_scale = factor_of(keys, "lm_head_multiplier");
  config.forms.ffn_norm = "pre_ff_layernorm";
  each_plan(config, [&](LayerPlan& layer) { layer.factors = factors; });
  keep_states_beside_attention(config, plan);
}

/// The matrices are multiplied by their factors.
void read_gguf_falcon_h1(const ConfigKeys& keys, const Checkpoint& checkpoint,
                         ModelConfig& config) {
  const std::vector<bool> all(config.plans.size(), true);
  keep_states_beside_attention(config, read_gguf_mamba(keys, checkpoint, config, all));
}

}  // namespace talon
