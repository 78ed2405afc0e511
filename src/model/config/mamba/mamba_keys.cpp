#include "model/config/mamba/mamba_keys.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

/// A number, or "auto": what the heads divide.
int mamba_head_dim(const ConfigKeys& keys, const ModelConfig& config, int heads) {
  constexpr std::string_view kDim = "mamba_d_head", kHeads = "mamba_n_heads";
  constexpr int kMostTimes = 64;
  const Json* stated = keys.find(kDim);
  const bool divides = !stated || (stated->is_string() && stated->get<std::string>() == "auto");
  if (!divides) return keys.integer(kDim, 1, Limits::kHeadDim);
  const int expanded = config.hidden * keys.integer_or("mamba_expand", 1, kMostTimes, 2);
  const int width = keys.integer_or("mamba_d_ssm", 1, Limits::kWidth, expanded);
  if (width % heads != 0 || width / heads > Limits::kHeadDim) {
    keys.refuse(kHeads, fmt::format("heads of at most {} columns that divide {}",
                                    int{Limits::kHeadDim}, width));
  }
  return width / heads;
}

}  // namespace

StepLimits read_step_limits(const ConfigKeys& keys) {
  constexpr std::string_view kLimits = "time_step_limit";
  constexpr double kMost = 1e6;
  const Json* stated = keys.find(kLimits);
  if (!stated) return {};
  const auto expect = [&](bool holds) {
    if (!holds) keys.refuse(kLimits, "two numbers in 0..1e6, the smaller one first");
  };
  expect(stated->is_array() && stated->size() == 2);
  const auto number = [&](const Json& value) {
    expect(value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMost);
    return value.get<float>();
  };
  const Json& most = (*stated)[1];
  const bool endless = most.is_object() && most.value("__float__", Json()) == Json("Infinity");
  StepLimits limits;
  limits.least = number((*stated)[0]);
  if (!endless) limits.most = number(most);
  expect(limits.least <= limits.most);
  return limits;
}

RecurrentPlan read_mamba(const ConfigKeys& keys, const ModelConfig& config) {
  for (const char* bias : {"mamba_proj_bias", "attention_bias"}) expect_flag(keys, bias, false);
  RecurrentPlan plan;
  plan.rule = StateRule::mamba2;
  plan.key_heads = keys.integer_or("mamba_n_groups", 1, Limits::kHeads, 1);
  plan.value_heads = keys.integer_or("mamba_n_heads", 1, Limits::kHeads, 128);
  plan.key_dim = keys.integer_or("mamba_d_state", 1, Limits::kHeadDim, 256);
  plan.value_dim = mamba_head_dim(keys, config, plan.value_heads);
  plan.kernel = keys.integer_or("mamba_d_conv", 2, kLongestKernel, 4);
  plan.filter_bias = keys.flag_or("mamba_conv_bias", true);
  plan.steps = read_step_limits(keys);
  return plan;
}

RecurrentPlan read_gguf_mamba(const ConfigKeys& keys, const Checkpoint& checkpoint,
                              const ModelConfig& config, const std::vector<bool>& keeps) {
  RecurrentPlan plan = read_gguf_state_sizes(keys, config);
  const auto first = std::find(keeps.begin(), keeps.end(), true) - keeps.begin();
  const auto has = [&](std::string_view tensor) {
    return checkpoint.find(fmt::format("blk.{}.{}", first, tensor)) != nullptr;
  };
  plan.rule = StateRule::mamba2;
  plan.filter_bias = has("ssm_conv1d.bias");
  plan.norm = has("ssm_norm.weight");
  return plan;
}

}  // namespace talon
