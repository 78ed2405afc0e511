#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

constexpr std::string_view kOriginal = "original_max_position_embeddings";

/// The part of one kind of layers, where there are several.
std::optional<ConfigKeys> rope_keys_of_kind(const ConfigKeys& keys, std::string_view kind) {
  auto all = rope_keys_of(keys);
  if (all && all->has(kind)) return all->object(kind);
  return all;
}

/// The context before it was stretched. What the whole says is before what its scaling says, as in
/// transformers; without either it is the context itself.
double original_context(const ConfigKeys& keys, const ConfigKeys& scaling, int context) {
  const double of_scaling = scaling.number_or(kOriginal, 1, 1e9, context);
  return keys.number_or(kOriginal, 1, 1e9, of_scaling);
}

/// YaRN's multiplier of cos and sin (arXiv:2309.00071 section 3.4), with DeepSeek's refinement by
/// two exponents.
double read_attention_factor(const ConfigKeys& scaling, double factor) {
  if (scaling.has("attention_factor")) {
    const double stated = scaling.number("attention_factor", 1e-3, 1e3);
    return static_cast<float>(stated);  // as GGUF files keep it
  }
  const double mscale = scaling.number_or("mscale", 0, 1e3, 0);
  const double all = scaling.number_or("mscale_all_dim", 0, 1e3, 0);
  if (mscale == 0 || all == 0) return yarn_attention_factor(factor);
  const double both = yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, all);
  return static_cast<float>(both);  // as GGUF files keep it
}

void read_llama3(const ConfigKeys& scaling, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::llama3;
  rope.low_frequency_factor = scaling.number("low_freq_factor", 1e-3, 1e6);
  rope.high_frequency_factor = scaling.number("high_freq_factor", 1e-3, 1e6);
  if (rope.high_frequency_factor < rope.low_frequency_factor) {
    scaling.refuse("high_freq_factor", "at least low_freq_factor");
  }
}

/// Without a factor it is that of the contexts.
void read_yarn(const ConfigKeys& scaling, int context, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::yarn;
  rope.factor = scaling.number_or("factor", 1e-3, 1e6, context / rope.original_context);
  rope.beta_fast = scaling.number_or("beta_fast", 1e-3, 1e6, 32);
  rope.beta_slow = scaling.number_or("beta_slow", 1e-3, 1e6, 1);
  rope.attention_factor = read_attention_factor(scaling, rope.factor);
  rope.truncate = scaling.flag_or("truncate", true);
}

/// Phi's factors for each frequency. The amplitude is that of the longest context, whichever
/// factors are in use.
void read_longrope(const ConfigKeys& scaling, int context, std::size_t pairs, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::longrope;
  rope.short_divisors = scaling.numbers("short_factor", 1e-3, 1e6, pairs);
  rope.long_divisors = scaling.numbers("long_factor", 1e-3, 1e6, pairs);
  if (rope.short_divisors.empty()) scaling.refuse("short_factor", "a factor of each frequency");
  if (rope.long_divisors.empty()) scaling.refuse("long_factor", "a factor of each frequency");
  const double stretch = scaling.number_or("factor", 1e-3, 1e6, context / rope.original_context);
  const double usual = stretch <= 1 || rope.original_context <= 1
                           ? 1.0
                           : std::sqrt(1 + std::log(stretch) / std::log(rope.original_context));
  const double factor = scaling.number_or("attention_factor", 1e-3, 1e3, usual);
  rope.attention_factor = static_cast<float>(factor);  // as GGUF files keep it
}

/// Gemma 4: only the first pairs of a head turn; the exponents count all of them.
void read_proportional(const ConfigKeys& scaling, int head_dim, RopeConfig& rope) {
  constexpr float kStill = 1e30F;  // as converters write it
  const double part = scaling.number_or("partial_rotary_factor", 0, 1, 1);
  rope.rotary = 0;
  rope.frequency_divisors.assign(static_cast<std::size_t>(head_dim) / 2, kStill);
  const auto turning = static_cast<std::size_t>(part * head_dim / 2);
  std::fill_n(rope.frequency_divisors.begin(), turning, 1.0F);
}

void read_scaling(const ConfigKeys& keys, const ConfigKeys& scaling, int context, int head_dim,
                  RopeConfig& rope) {
  const std::string_view key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.text_or(key, "default");
  // "dynamic" changes frequencies behind max_position_embeddings alone, where no text goes.
  if (type == "default" || type == "mrope" || type == "dynamic") return;
  if (type == "proportional") return read_proportional(scaling, head_dim, rope);
  const bool has_factors = type == "yarn" && scaling.has("short_factor");  // Phi 3's first name
  const bool is_longrope = type == "longrope" || type == "su" || has_factors;
  if (is_longrope || type == "yarn" || type == "llama3") {
    rope.original_context = original_context(keys, scaling, context);
  }
  if (is_longrope) {
    const int rotary = rope.rotary > 0 ? rope.rotary : head_dim;
    return read_longrope(scaling, context, static_cast<std::size_t>(rotary) / 2, rope);
  }
  if (type == "yarn") return read_yarn(scaling, context, rope);
  if (type != "linear" && type != "llama3")
    scaling.refuse(key, "default, linear, dynamic, llama3, yarn, longrope or proportional");
  rope.factor = scaling.number("factor", 1e-3, 1e6);
  if (type == "llama3") return read_llama3(scaling, rope);
  rope.scaling = RopeConfig::Scaling::linear;
}

}  // namespace

std::optional<ConfigKeys> rope_keys_of(const ConfigKeys& keys) {
  if (auto parameters = keys.object("rope_parameters")) return parameters;
  return keys.object("rope_scaling");
}

RopeConfig read_rope_of(const ConfigKeys& keys, int context, int head_dim, std::string_view kind) {
  RopeConfig rope;
  rope.base =
      keys.number_or("rope_theta", 1, 1e12, keys.number_or("rotary_emb_base", 1, 1e12, 1e4));
  double part =
      keys.number_or("partial_rotary_factor", 0, 1, keys.number_or("rotary_pct", 0, 1, 1));
  const auto scaling = rope_keys_of_kind(keys, kind);
  if (scaling) {
    rope.base = scaling->number_or("rope_theta", 1, 1e12, rope.base);
    part = scaling->number_or("partial_rotary_factor", 0, 1, part);
  }
  if (part != 1) {
    rope.rotary = static_cast<int>(head_dim * part);
    const bool proportional = scaling && scaling->text_or("rope_type", "") == "proportional";
    if (!proportional && (rope.rotary < 2 || rope.rotary % 2 != 0)) {
      keys.refuse("partial_rotary_factor",
                  fmt::format("an even number of columns of a head of {}", head_dim));
    }
  }
  if (scaling) read_scaling(keys, *scaling, context, head_dim, rope);
  if (rope.scaling == RopeConfig::Scaling::yarn && rope.base == 1) {
    (scaling->has("rope_theta") ? *scaling : keys).refuse("rope_theta", "more than 1 beside YaRN");
  }
  return rope;
}

}  // namespace talon
