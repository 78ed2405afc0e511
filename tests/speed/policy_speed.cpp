// What each policy's decisions take in a round, beside which a round of a model takes milliseconds:
// a head's tree of six levels and 59 nodes, proposed, cut, and learned from. NAME/between_passes:
// before every decision other memory was read, as the passes and the check of a real round do.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>

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
      const float log_p = tree[parent].log_p + test::ln(0.6) - 0.9F * static_cast<float>(rank);
      const NodeId node = tree.add(parent, rank, log_p);
      if (rank == 0) likeliest = node;
    }
  }
  return tree;
}

/// Reads more than the caches of one core hold.
void read_other_memory() {
  constexpr std::size_t kLine = 64;
  static std::vector<char> memory(std::size_t{16} << 20, 1);
  char sum = 0;
  for (std::size_t i = 0; i < memory.size(); i += kLine) sum = static_cast<char>(sum + memory[i]);
  benchmark::DoNotOptimize(sum);
}

/// The time of what a policy is asked, less what happens between its decisions.
class Decisions {
 public:
  explicit Decisions(bool between_passes) : between_passes_(between_passes) {}

  template <typename Decision>
  auto time(Decision decision) {
    if (between_passes_) read_other_memory();
    const auto start = std::chrono::steady_clock::now();
    const auto result = decision();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }
  double seconds() const { return seconds_; }

 private:
  bool between_passes_;
  double seconds_ = 0;
};

void decide(benchmark::State& state, const std::string& text, bool between_passes) {
  test::Machine machine(0.3, 0.5);
  const auto policy = machine.policy(text);
  RowBudget rows;
  const std::vector<float> feature(machine.policies.back()->taps().size() * 64);
  PlanContext context = test::alone();
  context.feature = feature;
  const DraftTree proposal = usual_tree(), root(0);
  std::array<float, 10> beam;
  for (std::size_t i = 0; i < beam.size(); ++i) beam[i] = -0.5F - 0.9F * static_cast<float>(i);
  DraftTree tree = proposal;
  for (auto round : state) {
    Decisions decisions(between_passes);
    tree = proposal;
    const TreePlan plan = decisions.time([&] { return policy->plan(context); });
    bool grows = plan.nodes > 0 && decisions.time([&] { return policy->start(root, 1); });
    for (int level = 1; grows && level < kLevels; ++level) {
      grows = decisions.time([&] { return policy->expand(beam); }) > 0;
    }
    decisions.time([&] {
      rows.begin_round();
      policy->offer(tree, context, rows);
      policy->select(tree, plan, context, rows);
      return tree.size();
    });
    decisions.time([&] {
      machine.costs.observe_check(tree.size(), context.position, 10);
      test::report(*policy, machine, tree, 2, 3);
      machine.costs.observe_rest(0.02);
      return 0;
    });
    state.SetIterationTime(decisions.seconds());
  }
}

const bool registered = [] {
  for (const PolicyEntry& entry : policies()) {
    const std::string text = test::policy_text(entry);
    for (const bool between_passes : {false, true}) {
      const std::string name = std::string(entry.name) + (between_passes ? "/between_passes" : "");
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        decide(state, text, between_passes);
      })->UseManualTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace talon
