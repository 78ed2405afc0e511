#include "tree/policies/policies.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

/// EAGLE-2, arXiv:2406.16858: every round the same depth, width and number of nodes, the likeliest
/// of those that the head drafted.
class Eagle2Policy : public TreePolicy {
 public:
  explicit Eagle2Policy(const TreeLimits& limits) : limits_(limits) {}
  TreePlan plan(const PlanContext& context) override { return limits_.within(context); }
  int expand(std::span<const float> path_log_p) override {
    return static_cast<int>(path_log_p.size());
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context) override {
    tree.prune(limits_.within(context).nodes);
  }
  void learn(const RoundOutcome&) override {}

 private:
  TreeLimits limits_;
};

}  // namespace

std::unique_ptr<TreePolicy> make_eagle2_policy(OptionText& options, const PolicyContext&) {
  return std::make_unique<Eagle2Policy>(take_limits(options, {10, 6, 59}));
}

}  // namespace talon
