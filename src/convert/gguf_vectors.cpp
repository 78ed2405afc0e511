#include <utility>
#include <vector>

#include "convert/gguf_keys.h"
#include "model/rope.h"

namespace talon {

std::vector<GgufVector> gguf_vectors_of(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  const int width = rope_width(rope, config, LayerPlan::Rope::global);
  std::vector<GgufVector> vectors;
  const auto add = [&](const char* name, std::vector<float> values) {
    if (!values.empty()) vectors.push_back({name, std::move(values)});
  };
  add("rope_freqs.weight", rope.scaling == RopeConfig::Scaling::llama3
                               ? llama3_divisors(rope, width)
                               : rope.frequency_divisors);
  add("rope_factors_short.weight", rope.short_divisors);
  add("rope_factors_long.weight", rope.long_divisors);
  return vectors;
}

}  // namespace talon
