#include "draft/merged.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/error.h"
#include "draft/merged_score.h"

namespace talon::merged_test {
namespace {

using Grow = std::function<void(DraftTree&)>;

/// Proposes what a function says, and remembers what it was shown.
class FakeDrafter : public Drafter {
 public:
  explicit FakeDrafter(Grow grow, std::vector<FeatureTap> taps = {}, bool extends = false,
                       bool is_random = false)
      : grow_(std::move(grow)), taps_(std::move(taps)), extends_(extends), draws_(is_random) {}
  DrafterTraits traits() const override {
    return {.taps = taps_, .extends_trees = extends_, .draws = draws_};
  }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens& committed) override {
    tokens.insert(tokens.end(), committed.tokens.begin(), committed.tokens.end());
    features = committed.features;
  }
  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      prompt_length = job.state->prompt_length;
      grow_(*job.tree);
      EXPECT_LE(job.tree->draft_nodes(), job.plan.nodes);
    }
  }
  void finish(DraftState&, bool) override { ++finished; }
  std::vector<TokenId> tokens;
  View features;
  int finished = 0;
  int prompt_length = 0;

 private:
  Grow grow_;
  std::vector<FeatureTap> taps_;
  bool extends_, draws_;
};

float ln(double p) { return static_cast<float>(std::log(p)); }

/// Merged fakes and one sequence.
struct Setting {
  explicit Setting(std::vector<std::unique_ptr<FakeDrafter>> fakes) {
    std::vector<MergedPart> parts;
    for (auto& fake : fakes) {
      all.push_back(fake.get());
      parts.push_back({"fake", std::move(fake)});
    }
    drafter = make_merged_drafter(std::move(parts));
    state = drafter->start();
  }
  DraftTree propose(int nodes = 64) {
    DraftTree tree(5);
    DraftJob job;
    job.state = state.get();
    job.plan = {nodes, 8, 10};
    job.tree = &tree;
    job.sampler = sampler;
    job.races = races;
    drafter->propose(std::span(&job, 1));
    check_invariants(tree);
    return tree;
  }
  void observe(const std::vector<TokenId>& tokens) {
    CommittedTokens committed;
    committed.tokens = tokens;
    drafter->observe(*state, committed);
  }
  const SamplerOptions* sampler = nullptr;  // null: greedily
  bool races = false;
  std::vector<FakeDrafter*> all;
  std::unique_ptr<Drafter> drafter;
  std::unique_ptr<DraftState> state;
};

std::unique_ptr<FakeDrafter> chain(std::vector<TokenId> tokens, double step) {
  return std::make_unique<FakeDrafter>([tokens, step](DraftTree& tree) {
    NodeId node = 0;
    for (const TokenId token : tokens) {
      node = tree.add(node, token, tree[node].log_p + ln(step));
    }
  });
}

std::vector<std::unique_ptr<FakeDrafter>> pair_of(std::unique_ptr<FakeDrafter> a,
                                                  std::unique_ptr<FakeDrafter> b) {
  std::vector<std::unique_ptr<FakeDrafter>> both;
  both.push_back(std::move(a));
  both.push_back(std::move(b));
  return both;
}

double chance(const DraftTree& tree, NodeId node) {
  return std::exp(static_cast<double>(tree[node].log_p));
}

TEST(MergedDrafter, TellsAllPartsOfTheEnd) {
  std::vector<std::unique_ptr<FakeDrafter>> fakes;
  for (int i = 0; i < 2; ++i) fakes.push_back(std::make_unique<FakeDrafter>([](DraftTree&) {}));
  Setting setting(std::move(fakes));
  setting.drafter->finish(*setting.state, true);
  for (const FakeDrafter* fake : setting.all) EXPECT_EQ(fake->finished, 1);
}

TEST(MergedDrafter, SharesPrefixesAndSaysWhoProposedWhat) {
  Setting setting(pair_of(chain({1, 2, 3}, 0.5), chain({1, 2, 4, 5}, 0.4)));
  const DraftTree tree = setting.propose();
  EXPECT_EQ(tree.draft_nodes(), 5);
  const NodeId shared = tree.child(tree.child(0, 1), 2);
  ASSERT_GT(shared, 0);
  const auto sources = [&](NodeId node) { return tree[node].sources; };
  EXPECT_EQ(sources(shared), 3u);
  EXPECT_EQ(sources(tree.child(shared, 3)), 1u);
  EXPECT_EQ(sources(tree.child(shared, 4)), 2u);
  EXPECT_NEAR(chance(tree, shared), 0.25, 1e-5);
  EXPECT_NEAR(chance(tree, tree.child(shared, 4)), 0.25 * 0.4,
              1e-5);  // its own step below the shared prefix
}

TEST(MergedDrafter, ChildrenOfOneNodeShareAtMostOne) {
  Setting setting(pair_of(chain({1}, 0.9), chain({2}, 0.6)));
  const DraftTree tree = setting.propose();
  EXPECT_NEAR(chance(tree, tree.child(0, 1)), 0.6, 1e-5);
  EXPECT_NEAR(chance(tree, tree.child(0, 2)), 0.4, 1e-5);
}

TEST(MergedDrafter, KeepsTheBestNodesOfAllWithinThePlan) {
  Setting setting(pair_of(chain({1, 2, 3}, 0.6), chain({8, 9}, 0.3)));
  const DraftTree tree = setting.propose(3);
  EXPECT_EQ(tree.draft_nodes(), 3);
  EXPECT_GT(tree.child(0, 8), 0);  // 0.6, 0.36, 0.3
}

TEST(MergedDrafter, LearnsWhomToBelieve) {
  Setting setting(pair_of(chain({1}, 0.9), chain({2}, 0.3)));
  setting.observe({5});
  for (int round = 0; round < 60; ++round) {
    setting.propose();
    setting.observe({2});
  }
  const DraftTree tree = setting.propose();
  EXPECT_LT(chance(tree, tree.child(0, 1)), 0.2);
  EXPECT_GT(chance(tree, tree.child(0, 2)), 0.8);
  setting.state = setting.drafter->start();  // another sequence starts from what this one learned
  EXPECT_GT(chance(setting.propose(), 2), 0.6);
}

TEST(MergedDrafter, LearnsApartWhetherDraftsKnowTheNoise) {
  const SamplerOptions hot{.temperature = 1};
  Setting setting(pair_of(chain({1}, 0.9), chain({2}, 0.3)));
  setting.sampler = &hot;
  const auto chance_of_another = [&](bool races) {
    setting.state = setting.drafter->start();
    setting.races = races;
    const DraftTree tree = setting.propose();
    return chance(tree, tree.child(0, 1));
  };
  const double alone = chance_of_another(true);
  EXPECT_EQ(chance_of_another(false), alone);
  for (int round = 0; round < 60; ++round) {
    setting.propose();
    setting.observe({2});
  }
  EXPECT_LT(chance_of_another(false), 0.5 * alone);
  EXPECT_EQ(chance_of_another(true), alone);
}

TEST(MergedDrafter, ARoundWithoutADraftTeachesNothing) {
  double chances[2];
  for (const int idle_rounds : {0, 50}) {
    Setting setting(pair_of(chain({1}, 0.5), chain({2}, 0.5)));
    setting.propose();
    setting.observe({1});
    for (int round = 0; round < idle_rounds; ++round) setting.observe({2});
    chances[idle_rounds > 0] = chance(setting.propose(), 1);
  }
  EXPECT_GT(chances[0], 0.5);
  EXPECT_EQ(chances[0], chances[1]);
}

TEST(MergedDrafter, ADrafterThatExtendsGrowsFromTheOthersBranches) {
  auto extender = std::make_unique<FakeDrafter>(
      [](DraftTree& tree) {
        const NodeId node = tree.child(0, 1);
        ASSERT_GT(node, 0);
        tree.add(node, 7, tree[node].log_p + ln(0.5));
        tree.add(0, 1, ln(0.9));
      },
      std::vector<FeatureTap>{}, true);
  Setting setting(pair_of(std::move(extender), chain({1}, 0.4)));
  const DraftTree tree = setting.propose();
  const NodeId shared = tree.child(0, 1);
  EXPECT_EQ(tree[shared].sources, 3u);
  EXPECT_NEAR(chance(tree, shared), 0.9, 1e-5);
  EXPECT_NEAR(chance(tree, tree.child(shared, 7)), 0.9 * 0.5, 1e-5);
}

TEST(MergedDrafter, GivesEachPartItsOwnFeatures) {
  const auto nothing = [](DraftTree&) {};
  Setting setting(pair_of(std::make_unique<FakeDrafter>(nothing, std::vector<FeatureTap>{{1}, {2}}),
                          std::make_unique<FakeDrafter>(nothing, std::vector<FeatureTap>{{7}})));
  ASSERT_EQ(setting.drafter->taps().size(), 3u);
  EXPECT_EQ(setting.drafter->taps()[2].layer, 7);
  std::vector<float> values(2 * 12);
  CommittedTokens committed;
  const std::vector<TokenId> tokens = {3, 4};
  committed.tokens = tokens;
  committed.features = {values.data(), 2, 12, 12};
  setting.drafter->observe(*setting.state, committed);
  EXPECT_EQ(setting.all[0]->features.cols, 8);
  EXPECT_EQ(setting.all[1]->features.cols, 4);
  EXPECT_EQ(setting.all[1]->features.data, values.data() + 8);
  EXPECT_EQ(setting.all[1]->tokens, tokens);
}

TEST(MergedDrafter, TellsEachPartWhereTheAnswerBegins) {
  Setting setting(pair_of(chain({1}, 0.5), chain({2}, 0.5)));
  setting.state->prompt_length = 7;
  setting.propose();
  for (const FakeDrafter* part : setting.all) EXPECT_EQ(part->prompt_length, 7);
}

TEST(MergedDrafter, RefusesPartsThatDraw) {
  const auto nothing = [](DraftTree&) {};
  EXPECT_THROW(
      Setting(pair_of(chain({1}, 0.5), std::make_unique<FakeDrafter>(
                                           nothing, std::vector<FeatureTap>{}, false, true))),
      UsageError);
}

}  // namespace
}  // namespace talon::merged_test
