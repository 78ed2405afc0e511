#include <algorithm>

#include "engine/round.h"

// What a round took.
namespace talon {

/// What drafting took beside the drafters' calls belongs to all who drafted.
void Round::share_the_rest(std::vector<Scheduled>& scheduled) const {
  double calls_ms = 0;
  int drafters = 0;
  for (const Scheduled& entry : scheduled) {
    if (entry.sharers == 0) continue;
    calls_ms += entry.own_draft_ms / entry.sharers;
    ++drafters;
  }
  if (drafters == 0) return;
  const double each_ms = std::max(0.0, draft_ms_ - calls_ms) / drafters;
  for (Scheduled& entry : scheduled) entry.own_draft_ms += each_ms * entry.sharers;
}

void Round::learn_rest(double step_ms) {
  const double rest_ms = kept_ms(StepPart::rest, step_ms - draft_ms_ - check_ms_);
  if (granted_.prompts == 0) {
    faults_.contain(FaultOrigin::policy, [&] { costs_.observe_rest(rest_ms); });
    return;
  }
  const int answer_rows = rows_ - granted_.prompts;
  const double without_ms = answer_rows > 0 ? costs_.check_ms(answer_rows) + costs_.rest_ms() : 0;
  budget_.observe(granted_.prompts, check_ms_ + rest_ms - without_ms);
}

double Round::kept_ms(StepPart part, double measured_ms) {
  if (!timekeeper_) return measured_ms;
  double ms = measured_ms;
  faults_.contain(FaultOrigin::observer, [&] { ms = timekeeper_(part, measured_ms); });
  return ms;
}

}  // namespace talon
