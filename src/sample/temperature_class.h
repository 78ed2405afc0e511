#pragma once

#include <cstddef>

#include "sample/sampler.h"

namespace talon {

/// Requests whose drafts come true about as often: what is learned of drafts is kept apart for each
/// class. Greedy ones are the first.
inline constexpr std::size_t kTemperatureClasses = 4;

inline std::size_t temperature_class(const SamplerOptions& sampler) {
  if (sampler.temperature == 0 || sampler.top_k == 1) return 0;
  if (sampler.temperature <= 0.5) return 1;
  return sampler.temperature <= 0.85 ? 2 : 3;
}

}  // namespace talon
