// What each policy's decisions take in a round, beside which a round of a model takes milliseconds:
// a head's tree of six levels and 59 nodes, proposed, cut, and learned from.
#include <benchmark/benchmark.h>

#include <array>

#include "tree/policies/test_files.h"
#include "tree/policies/test_machine.h"

namespace talon {
namespace {

constexpr int kLevels = 6;
constexpr int kNodes = 59;

/// Ten children of the root, then ten of the likeliest node of each level.
DraftTree usual_tree() {
  DraftTree tree(0);
  NodeId likeliest = 0;
  while (tree.draft_nodes() < kNodes) {
    const NodeId parent = likeliest;
    for (int rank = 0; rank < 10 && tree.draft_nodes() < kNodes; ++rank) {
      const float log_p = tree.log_p[static_cast<std::size_t>(parent)] + test::ln(0.6) -
                          0.9F * static_cast<float>(rank);
      const NodeId node = tree.add(parent, rank, log_p);
      if (rank == 0) likeliest = node;
    }
  }
  return tree;
}

void decide(benchmark::State& state, const std::string& text) {
  test::Machine machine(0.3, 0.5);
  const auto policy = machine.policy(text);
  const std::vector<float> feature(policy->taps().size() * 64);
  PlanContext context = test::alone();
  context.feature = feature;
  const DraftTree proposal = usual_tree(), root(0);
  std::array<float, 10> beam;
  for (std::size_t i = 0; i < beam.size(); ++i) beam[i] = -0.5F - 0.9F * static_cast<float>(i);
  DraftTree tree = proposal;
  for (auto round : state) {
    tree = proposal;
    const TreePlan plan = policy->plan(context);
    bool grows = plan.nodes > 0 && policy->start(root);
    for (int level = 1; grows && level < kLevels; ++level) grows = policy->expand(beam) > 0;
    policy->offer(tree, context);
    policy->select(tree, plan, context);
    machine.estimates.cost.observe_check(tree.size(), context.position, 10);
    test::report(*policy, machine.estimates, tree, 2, 3);
    machine.estimates.cost.observe_rest(0.02);
  }
}

const bool registered = [] {
  for (const PolicyEntry& entry : policies()) {
    const std::string text = test::policy_text(entry);
    benchmark::RegisterBenchmark(std::string(entry.name).c_str(),
                                 [text](benchmark::State& state) { decide(state, text); });
  }
  return true;
}();

}  // namespace
}  // namespace talon
