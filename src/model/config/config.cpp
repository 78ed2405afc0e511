#include "model/config/config.h"

#include <algorithm>

#include "core/error.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

[[noreturn]] void refuse_layer(const std::string& where, std::size_t layer, std::string_view what,
                               int found) {
  fail("read {}: layer {}: expected {}, found {}", where, layer, what, found);
}

void check_experts(const LayerPlan& plan, const std::string& where, std::size_t layer) {
  const ExpertPlan& e = plan.experts;
  if (e.used < 1 || e.used > e.count) {
    refuse_layer(where, layer, fmt::format("1 to {} experts of a token", e.count), e.used);
  }
  if (e.groups < 1 || e.count % e.groups != 0) {
    refuse_layer(where, layer, fmt::format("groups of equal size of {} experts", e.count),
                 e.groups);
  }
  const int size = e.count / e.groups;
  if (e.groups_used < 1 || e.groups_used > e.groups || e.used > size * e.groups_used ||
      (e.group_by_two && size < 2 && e.groups_used < e.groups)) {
    refuse_layer(where, layer, fmt::format("groups in use that hold {} experts", e.used),
                 e.groups_used);
  }
}

void check_states(const RecurrentPlan& plan, const std::string& where, std::size_t layer) {
  using Limits = ConfigLimits;
  static_assert(std::int64_t{Limits::kWidth} * Limits::kHeadDim < 1 << 28,
                "StateShape counts by int");
  if (plan.value_heads % plan.key_heads != 0) {
    refuse_layer(where, layer, fmt::format("a multiple of {} key heads", plan.key_heads),
                 plan.value_heads);
  }
  const int widest = std::max(plan.width(), plan.key_heads * plan.key_dim);
  if (widest > Limits::kWidth) {
    refuse_layer(where, layer,
                 fmt::format("heads of a state with at most {} columns together", Limits::kWidth),
                 widest);
  }
}

/// Relations between values that were each in range.
void check_plan(const LayerPlan& plan, const ModelConfig& config, const std::string& where,
                std::size_t layer) {
  if (plan.heads % plan.kv_heads != 0) {
    fail(
        "read {}: expected a number of heads that is a multiple of the {} key-value heads, found "
        "{}",
        where, plan.kv_heads, plan.heads);
  }
  if (plan.head_dim % 2 != 0) {
    fail("read {}: expected an even head size, found {}", where, plan.head_dim);
  }
  if (plan.cache_layer < 0 || plan.cache_layer > static_cast<int>(layer)) {
    refuse_layer(where, layer, "an earlier layer whose keys and values it shares",
                 plan.cache_layer);
  }
  if (plan.experts.count > 0) check_experts(plan, where, layer);
  if (plan.recurrent.value_heads > 0) check_states(plan.recurrent, where, layer);
  if (plan.rope == LayerPlan::Rope::none) return;
  const RopeConfig& rope =
      plan.rope == LayerPlan::Rope::local && config.local_rope ? *config.local_rope : config.rope;
  const int rotary = rope.rotary > 0 ? rope.rotary : plan.head_dim;
  if (rotary % 2 != 0 || rotary > plan.head_dim) {
    refuse_layer(where, layer,
                 fmt::format("an even number of at most {} rotary columns", plan.head_dim), rotary);
  }
  // Families may have put another base in the place of the one that their readers looked at.
  if (rope.scaling == RopeConfig::Scaling::yarn && rope.base == 1) {
    refuse_layer(where, layer, "a rotary base of more than 1 beside YaRN", 1);
  }
  check_divisors(rope, plan.head_dim, "read " + where);
}

void check_config(const ModelConfig& config, const std::string& where) {
  expects(config.plans.size() == static_cast<std::size_t>(config.layers), "a plan of every layer");
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    check_plan(config.plans[i], config, where, i);
  }
  const auto writes = [](const LayerPlan& plan) { return plan.writes_cache; };
  if (std::ranges::none_of(config.plans, writes)) {
    fail("read {}: expected a layer with attention, found {} with states", where, config.layers);
  }
}

}  // namespace

void check_divisors(const RopeConfig& rope, int head_dim, const std::string& doing) {
  const int rotary = rope.rotary > 0 ? rope.rotary : head_dim;
  for (const auto* divisors :
       {&rope.frequency_divisors, &rope.short_divisors, &rope.long_divisors}) {
    const std::size_t found = divisors->size();
    if (found == 0 || found == static_cast<std::size_t>(rotary) / 2) continue;
    fail("{}: factors of rotary frequencies: expected {} values, found {}", doing, rotary / 2,
         found);
  }
}

ModelConfig read_model_config(const Checkpoint& checkpoint) {
  ModelConfig config;
  if (is_llamagen(checkpoint)) {
    config = read_llamagen_config(checkpoint);
    check_config(config, checkpoint.path.string());
    return config;
  }
  switch (checkpoint.format) {
    case CheckpointFormat::gguf:
      config = read_gguf_config(checkpoint);
      break;
    case CheckpointFormat::hugging_face:
      config = read_hugging_face_config(checkpoint);
      break;
    case CheckpointFormat::llama2c:
      config = read_llama2c_config(checkpoint);
      break;
    default:
      fail(
          "read {}: expected a GGUF file, a Hugging Face folder or a llama2.c checkpoint, found {}",
          checkpoint.path.string(), name_of(checkpoint.format));
  }
  check_config(config, checkpoint.path.string());
  return config;
}

void plan_alike(ModelConfig& config) {
  LayerPlan plan{.heads = config.heads,
                 .kv_heads = config.kv_heads,
                 .head_dim = config.head_dim,
                 .intermediate = config.intermediate,
                 .norm_epsilon = config.norm_epsilon,
                 .window = config.sliding_window};
  plan.qkv_bias = config.qkv_bias;
  plan.output_bias = config.output_bias;
  if (config.qk_norm) plan.head_norm = LayerPlan::HeadNorm::per_head;
  config.plans.assign(static_cast<std::size_t>(config.layers), plan);
  for (int i = 0; i < config.layers; ++i) {
    config.plans[static_cast<std::size_t>(i)].cache_layer = i;
  }
}

ModelConfig read_llama2c_config(const Checkpoint& checkpoint) {
  using Limits = ConfigLimits;
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  ModelConfig config;
  config.architecture = "llama";
  config.layers = keys.integer("n_layers", 1, Limits::kLayers);
  config.hidden = keys.integer("dim", 1, Limits::kWidth);
  config.intermediate = keys.integer("hidden_dim", 1, Limits::kWidth);
  config.heads = keys.integer("n_heads", 1, Limits::kHeads);
  config.kv_heads = keys.integer("n_kv_heads", 1, Limits::kHeads);
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.context = keys.integer("seq_len", 1, Limits::kContext);
  if (config.hidden % config.heads != 0) {
    keys.refuse("dim", fmt::format("a multiple of the {} heads", config.heads));
  }
  config.head_dim = config.hidden / config.heads;
  config.norm_epsilon = 1e-5F;
  config.interleaved_rope = true;
  config.tied_output = checkpoint.find("output.weight") == nullptr;
  config.start_token = 1;
  // A story ends where the next one would start; Llama's own end token never occurs in the training
  // data, but ends too.
  config.end_tokens = {1, 2};
  plan_alike(config);
  return config;
}

}  // namespace talon
