#include "engine/round/draft_jobs.h"

namespace talon {

template <typename Ask>
void ContainedPolicy::contain(Ask&& ask) {
  if (!has_failed_) has_failed_ = !faults_.contain(FaultOrigin::policy, ask);
}

void ContainedPolicy::turn_to(std::uint32_t source) {
  contain([&] { policy_.turn_to(source); });
}

bool ContainedPolicy::start(const DraftTree& tree, int waiting) {
  bool starts = false;
  contain([&] { starts = policy_.start(tree, waiting); });
  return starts;
}

int ContainedPolicy::expand(std::span<const float> path_log_p) {
  int nodes = 0;
  contain([&] { nodes = policy_.expand(path_log_p); });
  return nodes;
}

std::span<DraftJob> DraftJobs::of(std::span<Scheduled* const> scheduled) {
  policies_.reserve(scheduled.size());  // jobs point at them
  for (Scheduled* const entry : scheduled) {
    DraftJob& job = jobs_.emplace_back(draft_job_of(*entry));
    job.policy = &policies_.emplace_back(*job.policy, faults_);
  }
  return jobs_;
}

}  // namespace talon
