#include <gtest/gtest.h>

#include "verify/checked_tree.h"
#include "verify/exact_enumeration.h"
#include "verify/relaxed/epsilon_rule.h"
#include "verify/test_input.h"

namespace talon::epsilon_test {
namespace {

Law<Rational> law(const std::vector<const char*>& weights) {
  Law<Rational> result;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    const Rational weight = Rational::parse(weights[token]);
    if (Rational(0) < weight) result.entries.push_back({static_cast<TokenId>(token), weight});
  }
  return result;
}

Rational distance(const Law<Rational>& p, const Law<Rational>& q) {
  return excess(Rational(1), p, q).total();
}

struct Outcome {
  Law<Rational> first;  // of the first token
  Rational accepted;    // chance that the first child becomes text
  Rational distortion;  // the mean of what was reported at the root
};

/// One level of `children` drawn without replacement, every way that can fall.
Outcome outcome(const Law<Rational>& p, const Law<Rational>& q, int children,
                const Rational& most) {
  const Conditionals<Rational> targets = {{"", p}, {"0", p}, {"1", p}, {"2", p}},
                               drafts = {{"", q}};
  Outcome result{{}, Rational(0), Rational(0)};
  std::map<TokenId, Rational> weights;
  Branches branches;
  do {
    TableTree<Rational> tree(targets, drafts);
    tree.add(0,
             draw_without_replacement(
                 q, children, [&](const Law<Rational>& left) { return branches.draw(left); }),
             /*drawn=*/true);
    Rational distortion(0);
    const VerifyResult verdict = verify_by_epsilon(tree, branches, most, distortion);
    const bool accepted = verdict.path.size() > 1;
    const TokenId token = accepted ? tree.token(verdict.path[1]) : verdict.next;
    weights[token] = weights[token] + branches.probability();
    if (accepted) result.accepted = result.accepted + branches.probability();
    result.distortion = result.distortion + branches.probability() * distortion;
  } while (branches.next_run());
  for (const auto& [token, weight] : weights) result.first.entries.push_back({token, weight});
  return result;
}

const Law<Rational> kTarget = law({"1/2", "3/10", "1/5"});
const Law<Rational> kDraft = law({"1/5", "1/5", "3/5"});  // 2/5 away

TEST(EpsilonRule, TheLawOfATokenIsExactlySoFarFromTheTargets) {
  for (const int children : {1, 2, 3}) {
    for (const char* most : {"0", "1/20", "1/4"}) {
      const Rational e = Rational::parse(most);
      const Outcome found = outcome(kTarget, kDraft, children, e);
      EXPECT_EQ(distance(kTarget, found.first), e) << most << " with " << children;
      EXPECT_EQ(found.distortion, e) << most << " with " << children;
    }
  }
}

TEST(EpsilonRule, OnAChainAcceptanceGrowsByWhatTheLawIsMoved) {
  const Rational exact = outcome(kTarget, kDraft, 1, Rational(0)).accepted;
  EXPECT_EQ(exact, Rational::parse("3/5"));
  EXPECT_EQ(outcome(kTarget, kDraft, 1, Rational::parse("1/10")).accepted,
            exact + Rational::parse("1/10"));
}

TEST(EpsilonRule, BeyondTheDraftItDoesNotGo) {
  const Outcome found = outcome(kTarget, kDraft, 1, Rational(1));
  EXPECT_EQ(found.accepted, Rational(1));
  EXPECT_EQ(distance(kDraft, found.first), Rational(0));
  EXPECT_EQ(found.distortion, Rational::parse("2/5"));
}

TEST(EpsilonRule, ReportsWhatItMovedForFixedChildren) {
  DraftTree tree(0);
  tree.add(0, 1, -1.0f);
  const std::vector<std::vector<float>> rows = {logits_of({0.5, 0.3, 0.2}),
                                                logits_of({0.5, 0.3, 0.2})};
  TestInput test(tree, rows, {.temperature = 1});
  EXPECT_TRUE(make_verifier("epsilon:e=0")->lossless());
  const auto rule = make_verifier("epsilon:e=0.25");
  EXPECT_FALSE(rule->lossless());
  EXPECT_NEAR(rule->verify(test.input()).distortion, 0.25, 1e-6);
  const VerifyResult certain = make_verifier("epsilon:e=1")->verify(test.input());
  EXPECT_EQ(certain.path.size(), 2u);
  EXPECT_NEAR(certain.distortion, 0.7, 1e-6);
  EXPECT_NEAR(certain.relaxed, 0.7, 1e-6) << "the exact rule takes it with 0.3";
}

TEST(EpsilonRule, TellsWhatOfAChanceTheExactRuleHasNot) {
  DraftTree tree(0);
  const NodeId first = tree.add(0, 1, -1.0f), second = tree.add(0, 2, -1.0f);
  TestInput test(tree, {logits_of({0.5, 0.3, 0.2})}, {.temperature = 1});
  const VerifyInput input = test.input();
  CheckedTree checked(input);
  const Law<double> exact = checked.target(0);
  const Law<double> moved = {{{0, 0.3}, {1, 0.58}, {2, 0.12}}};
  EXPECT_NEAR(relaxed_share(checked, 0, first, exact, moved), 1 - 0.3 / 0.58, 1e-6);
  // Behind the rejected first one both laws are the same: 5/7 and 2/7.
  EXPECT_NEAR(relaxed_share(checked, 0, second, exact, moved), 0, 1e-6);
  EXPECT_EQ(relaxed_share(checked, 0, first, exact, exact), 0);
}

TEST(EpsilonRule, MovesNothingTowardsAFixedChildThatTheRequestForbids) {
  DraftTree tree(0);
  tree.add(0, 1, -1.0f);
  const std::vector<std::vector<float>> rows = {logits_of({0.5, 0.3, 0.2}),
                                                logits_of({0.5, 0.3, 0.2})};
  const auto rule = make_verifier("epsilon:e=1");
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = 1, .banned = {1}},
        SamplerOptions{.temperature = 1, .logit_bias = {{1, -100.0f}}},
        SamplerOptions{.temperature = 1, .banned_early = {1}, .least_answer = 2}}) {
    TestInput test(tree, rows, options);
    const VerifyResult result = rule->verify(test.input());
    EXPECT_EQ(result.path.size(), 1u);
    EXPECT_NE(result.next, 1);
    EXPECT_EQ(result.distortion, 0);
  }
}

}  // namespace
}  // namespace talon::epsilon_test
