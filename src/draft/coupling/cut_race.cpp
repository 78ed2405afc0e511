#include "draft/coupling/cut_race.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "sample/race.h"

namespace talon {
namespace {

constexpr double kOthers = 0.2;  // of the chance, of tokens that the cuts take from the head's law

/// How many of the likeliest tokens are left, in the sampler's order: top-k, top-p, min-p. weights:
/// in units of the largest, descending.
std::size_t left_by(const StrictCut& cut, std::span<const double> weights) {
  std::size_t left = weights.size();
  if (cut.top_k > 0) left = std::min(left, static_cast<std::size_t>(cut.top_k));
  const double all = std::accumulate(weights.begin(), weights.begin() + std::ptrdiff_t(left), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < left; ++i) {
    sum += weights[i];
    const bool is_last = sum >= cut.top_p * all;
    if (i > 0 && weights[i] < cut.min_p) return i;
    if (is_last) return i + 1;
  }
  return left;
}

/// Chances that sum to `sum`, as the exponentials of the scores. What is no number has none.
void to_chances(double sum, std::span<double> scores) {
  if (scores.empty()) return;
  const double best = *std::ranges::max_element(scores);
  double all = 0;
  for (double& score : scores) {
    const double weight = std::exp(score - best);
    score = weight >= 0 ? weight : 0;
    all += score;
  }
  for (double& weight : scores) weight *= all > 0 ? sum / all : 0;
}

}  // namespace

void race_after_cut(const DraftPlace& place, const Coupling& coupling, std::span<TokenId> tokens,
                    std::span<float> values) {
  expects(place.races() && place.cut.any() && !tokens.empty(), "tokens of a place with a cut");
  const std::vector<TokenId> by_logit(tokens.begin(), tokens.end());
  std::vector<double> weights, chances;  // of the law; then scores of the head, then chances
  for (const float value : values) {
    chances.push_back(static_cast<double>(value));
    weights.push_back(std::exp((chances.back() - chances.front()) / place.temperature));
  }
  const std::size_t left = left_by(place.cut, weights);
  const auto racing = std::span(chances).first(left), others = std::span(chances).subspan(left);

  // gamma (beta z + T G), as OutputHead has it of whole rows.
  const RaceNoise noise(*place.random, place.position);
  for (std::size_t i = 0; i < left; ++i) {
    const double gumbel = -noise.log_exponential(by_logit[i]);
    racing[i] = coupling.gamma * (coupling.beta * racing[i] + place.temperature * gumbel);
  }
  to_chances(others.empty() ? 1 : 1 - kOthers, racing);
  to_chances(kOthers, others);

  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return chances[i]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    tokens[i] = by_logit[order[i]];
    values[i] = static_cast<float>(chances[order[i]]);
  }
}

}  // namespace talon
