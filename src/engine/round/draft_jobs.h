#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "draft/draft_job.h"
#include "engine/faults.h"
#include "engine/round/scheduled.h"
#include "tree/tree_policy.h"

namespace talon {

/// Stands for the policy of one job while its drafter works on the jobs of several sequences: what
/// the policy throws stays here, and the job's tree grows no further. Borrows both.
class ContainedPolicy : public PolicyState {
 public:
  ContainedPolicy(PolicyState& policy, Faults& faults) : policy_(policy), faults_(faults) {}

  TreePlan plan(const PlanContext& context) override { return policy_.plan(context); }
  void turn_to(std::uint32_t source) override;
  bool start(const DraftTree& tree, int waiting) override;
  int expand(std::span<const float> path_log_p) override;

  bool has_failed() const { return has_failed_; }

 private:
  template <typename Ask>
  void contain(Ask&& ask);

  PolicyState& policy_;
  Faults& faults_;
  bool has_failed_ = false;
};

/// What a drafter is asked for in one call, with policies that cannot end it for all.
class DraftJobs {
 public:
  explicit DraftJobs(Faults& faults) : faults_(faults) {}
  DraftJobs(const DraftJobs&) = delete;
  DraftJobs& operator=(const DraftJobs&) = delete;

  /// One for each, all of which draft. Called once.
  std::span<DraftJob> of(std::span<Scheduled* const> scheduled);
  std::span<const DraftJob> all() const { return jobs_; }
  /// Whether the policy of job `index` threw.
  bool policy_failed(std::size_t index) const { return policies_[index].has_failed(); }

 private:
  Faults& faults_;
  std::vector<ContainedPolicy> policies_;
  std::vector<DraftJob> jobs_;
};

}  // namespace talon
