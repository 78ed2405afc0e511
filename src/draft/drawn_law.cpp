#include "draft/drawn_law.h"

#include <limits>
#include <utility>
#include <vector>

namespace talon {

Law<double> drawn_law(std::span<const float> logits, std::span<const TokenId> target_token,
                      int vocabulary, const NextDraw& draw) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> of_target(static_cast<std::size_t>(vocabulary), kNever);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto at = target_token.empty() ? i : static_cast<std::size_t>(target_token[i]);
    if (at < of_target.size()) of_target[at] = logits[i];
  }
  SamplerOptions options = draw.options;
  // The sampler is told of no text, so that its answer never seems long enough.
  if (draw.answered >= options.least_answer) options.banned_early.clear();
  Law<double> law;
  Sampler sampler(std::move(options), vocabulary);
  for (const auto& [token, p] : sampler.distribution_by_token(of_target, {}))
    law.entries.push_back({token, p});
  return law;
}

}  // namespace talon
