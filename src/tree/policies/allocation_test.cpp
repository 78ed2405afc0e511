#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tree/policies/test_files.h"
#include "tree/policies/test_machine.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Counted, for the whole test program.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size > 0 ? size : 1);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace talon::allocation_test {
namespace {

/// A head's tree of six levels: a likely chain with three siblings on each.
DraftTree usual_tree() {
  DraftTree tree(0);
  NodeId on_chain = 0;
  for (int level = 1; level <= 6; ++level) {
    const NodeId parent = on_chain;
    const auto log_p = [&](double p) {
      return static_cast<float>((level - 1) * std::log(0.7) + std::log(p));
    };
    on_chain = tree.add(parent, 1, log_p(0.7));
    tree.add(parent, 2, log_p(0.15));
    tree.add(parent, 3, log_p(0.08));
  }
  return tree;
}

/// Plays rounds whose own memory is all there from the start.
class RoundPlayer {
 public:
  explicit RoundPlayer(std::string_view policy)
      : machine_(0.3, 0.5), policy_(machine_.policy(policy)), tree_(0), root_(0) {}

  /// Allocations in the policy and the cost model.
  long play(int round) {
    PlanContext context = test::alone();
    context.answer_position = answer_;
    context.levels_available = kAnswer - answer_;
    context.feature = feature();
    root_.reset(0);
    tree_ = proposal_;
    const long before = allocations;
    const TreePlan plan = policy_->plan(context);
    if (plan.nodes > 0) draft();
    if (!drafted_) tree_.reset(0);
    rows_.begin_round();
    policy_->offer(tree_, context, rows_);
    policy_->select(tree_, plan, context, rows_);
    learn(round % 7);
    return allocations - before;
  }

 private:
  static constexpr int kAnswer = 1 << 12;

  std::span<const float> feature() const {
    static const std::array<float, 128> values{};
    return machine_.policies.back()->taps().empty() ? std::span<const float>{} : values;
  }

  void draft() {
    drafted_ = policy_->start(root_, 1);
    const std::array<float, 3> beam = {-0.4F, -1.9F, -2.5F};
    int levels = 1;
    while (drafted_ && levels < 6 && policy_->expand(beam) > 0) ++levels;
  }

  void learn(int right) {
    std::array<TokenId, 8> emitted{};
    std::array<NodeId, 8> accepted{};
    std::size_t count = 0;
    for (NodeId node = tree_.child(0, 1); node > 0 && static_cast<int>(count) < right;
         node = tree_.child(node, 1)) {
      emitted[count++] = 1;
      accepted[count] = node;
    }
    emitted[count] = 9;
    RoundOutcome outcome;
    outcome.tree = &tree_;
    outcome.accepted = std::span(accepted).first(count + 1);
    outcome.emitted = std::span(emitted).first(count + 1);
    outcome.draft_ms = outcome.own_draft_ms = drafted_ ? 1.5 : 0.001;
    outcome.sharers = 1;
    outcome.check_ms = 10 + 0.3 * tree_.draft_nodes();
    outcome.draft_rows = tree_.draft_nodes();
    outcome.batch_tokens = static_cast<int>(count) + 1;
    machine_.costs.observe_check(tree_.size(), 10, outcome.check_ms);
    policy_->learn(outcome);
    machine_.costs.observe_rest(0.02);
    answer_ += outcome.batch_tokens;
    drafted_ = false;
  }

  test::Machine machine_;
  std::unique_ptr<PolicyState> policy_;
  RowBudget rows_;
  const DraftTree proposal_ = usual_tree();
  DraftTree tree_, root_;
  bool drafted_ = false;
  int answer_ = 0;
};

TEST(Policies, AllocateNothingInARoundOnceTheyAreWarm) {
  for (const PolicyEntry& entry : policies()) {
    RoundPlayer player(test::policy_text(entry));
    for (int round = 0; round < 100; ++round) player.play(round);
    long counted = 0;
    for (int round = 0; round < 300; ++round) counted += player.play(round);
    EXPECT_EQ(counted, 0) << entry.name;
  }
}

TEST(Policies, TheCountOfAllocationsSeesOne) {
  const long before = allocations;
  EXPECT_NE(std::vector<int>(100).data(), nullptr);
  EXPECT_EQ(allocations - before, 1);
}

}  // namespace
}  // namespace talon::allocation_test
