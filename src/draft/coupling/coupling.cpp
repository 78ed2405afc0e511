#include "draft/coupling/coupling.h"

#include <cmath>

#include "draft/drafter.h"
#include "sample/race.h"

namespace talon {

namespace {

/// Where few are left drafts are right more often if these race alone (docs/methods.md 3.5).
StrictCut strict_cut(const SamplerOptions& sampler) {
  constexpr int kFew = 64;
  constexpr double kMass = 0.9, kShare = 0.02;
  const bool leaves_few = (sampler.top_k > 0 && sampler.top_k <= kFew) || sampler.top_p <= kMass ||
                          sampler.min_p >= kShare;
  if (!leaves_few) return {};
  return {sampler.top_k, sampler.top_p, sampler.min_p};
}

}  // namespace

bool DraftPlace::bans(TokenId token) const {
  constexpr float kAsGoodAsBanned = -50;  // clients write a ban as a bias of -100
  return changes != nullptr && changes->shift_of(token, is_early()) <= kAsGoodAsBanned;
}

DraftPlace first_place(const DraftJob& job, const Coupling& coupling) {
  DraftPlace place;
  place.position = static_cast<std::uint64_t>(job.position) + 1;
  if (job.changes && !job.changes->empty()) place.changes = job.changes;
  if (job.penalties && !job.penalties->empty()) place.penalties = job.penalties;
  if (place.changes && job.state && place.changes->least_answer() > 0) {
    place.early_end = static_cast<std::uint64_t>(job.state->prompt_length) +
                      static_cast<std::uint64_t>(place.changes->least_answer());
  }
  const bool foreseen = coupling.on && job.races && job.sampler && job.random &&
                        job.sampler->temperature > 0 && job.sampler->top_k != 1;
  if (!foreseen) return place;
  place.random = job.random;
  place.temperature = job.sampler->temperature;
  place.cut = strict_cut(*job.sampler);
  return place;
}

double chance_factor(const DraftPlace& place, TokenId token) {
  constexpr double kLow = 0.5;
  if (place.temperature <= kLow) return 1;
  return std::exp(-0.5 * RaceNoise(*place.random, place.position).log_exponential(token));
}

}  // namespace talon
