#pragma once

#include <cstddef>

#include "sample/sampler.h"

namespace talon {

/// Requests whose texts are drawn about alike. Greedy ones are the first class.
inline constexpr std::size_t kTemperatureClasses = 4;

inline std::size_t temperature_class(const SamplerOptions& sampler) {
  if (sampler.temperature == 0 || sampler.top_k == 1) return 0;
  if (sampler.temperature <= 0.5) return 1;
  return sampler.temperature <= 0.85 ? 2 : 3;
}

/// Requests whose drafts come true about as often: what is learned of chances is kept apart for
/// each class. Drafts that know the noise of the draws come true more often than others, so that
/// each temperature class has two of these, those that know it first. Greedy ones know no noise.
inline constexpr std::size_t kDraftClasses = 2 * kTemperatureClasses - 1;

/// knows_noise: the drafts may (Verifier::drafts_may_know_noise, DraftJob::races).
inline std::size_t draft_class(const SamplerOptions& sampler, bool knows_noise) {
  const std::size_t kind = temperature_class(sampler);
  return kind == 0 || knows_noise ? kind : kind + kTemperatureClasses - 1;
}

inline bool draft_class_knows_noise(std::size_t kind) {
  return kind > 0 && kind < kTemperatureClasses;
}

}  // namespace talon
