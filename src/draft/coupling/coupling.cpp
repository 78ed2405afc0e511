#include "draft/coupling/coupling.h"

#include <cmath>

#include "draft/drafter.h"
#include "sample/race.h"

namespace talon {

DraftPlace first_place(const DraftJob& job, const Coupling& coupling) {
  const bool foreseen = coupling.on && job.races && job.sampler && job.random &&
                        job.sampler->temperature > 0 && job.sampler->top_k != 1;
  if (!foreseen) return {};
  return {job.random, static_cast<std::uint64_t>(job.position) + 1, job.sampler->temperature};
}

double chance_factor(const DraftPlace& place, TokenId token) {
  constexpr double kLow = 0.5;
  if (place.temperature <= kLow) return 1;
  return std::exp(-0.5 * RaceNoise(*place.random, place.position).log_exponential(token));
}

}  // namespace talon
