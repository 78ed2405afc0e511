#include <gtest/gtest.h>

#include <random>

#include "tree/policies/test_machine.h"

namespace talon::never_slower_test {
namespace {

/// How a drafter's time is spent.
enum class Drafting { free, at_once, in_passes };

/// A machine and a drafter that only ever proposes a chain.
constexpr int kPrompt = 10;  // tokens that a head has not seen when the answer begins
constexpr int kAnswer = 128;

struct World {
  double row_ms;       // that a drafted row adds to a check of 10 ms
  double draft_ms;     // of a draft at once, or of one pass
  double claimed;      // chance of each next token, as the drafter says
  double truth;        // as it is
  bool has_neighbour;  // who takes half of the bandwidth now and then
  Drafting drafting;
  double waiting_row_ms = 0;  // of each token that a head has not seen, in its first pass
};

CostProfile costs_of(const World& world) {
  CostProfile profile = test::Machine::profile(world.row_ms, world.draft_ms);
  profile.waiting_row_ms = world.waiting_row_ms;
  return profile;
}

std::string describe(const World& world) {
  return ::testing::PrintToString(world.row_ms) + " ms a row, " +
         ::testing::PrintToString(world.draft_ms) + " ms a draft, " +
         ::testing::PrintToString(world.waiting_row_ms) + " ms a token not seen, claims " +
         ::testing::PrintToString(world.claimed) + ", is right " +
         ::testing::PrintToString(world.truth) + (world.has_neighbour ? ", neighbour" : "") +
         ", drafting " + ::testing::PrintToString(static_cast<int>(world.drafting));
}

/// Time of one answer over that of plain decoding on the same machine.
class Answer {
 public:
  Answer(const World& world, test::Machine& machine, unsigned seed)
      : world_(world), machine_(machine), policy_(machine.policy("throughput")), random_(seed) {}

  double time_beside_plain(int tokens) {
    for (int round = 0; tokens_ < tokens; ++round) {
      slow_ = world_.has_neighbour && round / 60 % 2 == 1 ? 2 : 1;
      play(tokens - tokens_);
    }
    return ms_ / plain_ms_;
  }

 private:
  void play(int tokens_left) {
    PlanContext context = test::alone();
    context.levels_available = tokens_left - 1;
    DraftTree tree(0);
    const TreePlan plan = policy_->plan(context);
    const double draft_ms = plan.nodes > 0 ? slow_ * draft(tree, plan.levels) : 0;
    test::cut(*policy_, tree, plan, context);
    const double check_ms = slow_ * (10 + world_.row_ms * tree.draft_nodes());
    int right = 0;
    while (right < 20 && uniform_(random_) < world_.truth) ++right;
    const int emitted = std::min(right, tree.draft_nodes()) + 1;
    tokens_ += emitted;
    waiting_ += emitted;
    ms_ += check_ms + draft_ms;
    plain_ms_ += slow_ * 10 * emitted;
    machine_.costs.observe_check(tree.size(), context.position,
                                 check_ms * (0.95 + 0.1 * uniform_(random_)));
    test::report(*policy_, machine_, tree, right, draft_ms);
  }

  /// Returns the milliseconds on an undisturbed machine.
  double draft(DraftTree& tree, int most_levels) {
    if (world_.drafting != Drafting::in_passes) {
      tree = test::chain(std::min(16, most_levels), world_.claimed);
      return world_.drafting == Drafting::free ? 0.005 : world_.draft_ms;
    }
    if (!policy_->start(tree, waiting_ - 1)) return 0;
    double ms = world_.waiting_row_ms * (std::exchange(waiting_, 0) - 1);
    bool more = true;
    for (int level = 1; more && level <= std::min(16, most_levels); ++level) {
      ms += world_.draft_ms;
      const auto log_p = static_cast<float>(level * std::log(world_.claimed));
      tree.add(level - 1, 1, log_p);
      more = policy_->expand(std::span(&log_p, 1)) > 0;
    }
    return ms;
  }

  const World& world_;
  test::Machine& machine_;
  std::unique_ptr<PolicyState> policy_;
  std::mt19937 random_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  double slow_ = 1;
  int tokens_ = 0;
  int waiting_ = kPrompt;  // tokens that the head has not seen
  double ms_ = 0, plain_ms_ = 0;
};

std::vector<World> adversaries() {
  std::vector<World> worlds;
  for (const double row_ms : {0.05, 0.5, 3.0, 9.0}) {
    for (const double draft_ms : {0.2, 1.0, 4.0}) {
      for (const double claimed : {0.3, 0.7, 0.99}) {
        for (const double truth : {0.0, 0.1, claimed}) {
          for (const bool has_neighbour : {false, true}) {
            for (const auto drafting : {Drafting::free, Drafting::at_once, Drafting::in_passes}) {
              worlds.push_back({row_ms, draft_ms, claimed, truth, has_neighbour, drafting});
            }
            worlds.push_back(
                {row_ms, draft_ms, claimed, truth, has_neighbour, Drafting::in_passes, 0.3});
          }
        }
      }
    }
  }
  return worlds;
}

/// While the neighbour comes or goes, costs are off by up to two for some rounds: then a little
/// more. Where drafts have paid lately, what a head takes in of a prompt comes on top.
double bound(const World& world) {
  const double prompt_ms = world.waiting_row_ms * kPrompt;
  return (world.has_neighbour ? 1.03 : 1.02) + prompt_ms / (kAnswer * 10);
}

TEST(NeverSlower, NoAnswerTakesTwoPercentLongerThanPlainWhateverDrafterAndMachine) {
  for (const World& world : adversaries()) {
    test::Machine machine(costs_of(world));
    for (unsigned answer = 0; answer < 6; ++answer) {
      EXPECT_LE(Answer(world, machine, answer).time_beside_plain(kAnswer), bound(world))
          << describe(world) << ", answer " << answer;
    }
  }
}

TEST(NeverSlower, ATextThatTurnsAgainstTheDrafterCostsLittleOfWhatItHadGained) {
  World world{0.5, 1, 0.8, 0.8, false, Drafting::in_passes};
  test::Machine machine(costs_of(world));
  for (unsigned answer = 0; answer < 4; ++answer) {
    EXPECT_LT(Answer(world, machine, answer).time_beside_plain(256), 0.7);
  }
  world.truth = 0;
  for (unsigned answer = 0; answer < 4; ++answer) {
    EXPECT_LE(Answer(world, machine, answer).time_beside_plain(128), 1.02) << answer;
  }
}

}  // namespace
}  // namespace talon::never_slower_test
