#include <gtest/gtest.h>

#include <random>

#include "draft/lookup/ngram_index.h"
#include "draft/lookup/test_proposals.h"
#include "draft/registry.h"
#include "sample/race.h"

namespace talon::ngram_test {
namespace {

using test::likeliest_path;
using test::proposal;

TEST(NgramIndex, FindsTheLastEarlierPlaceOfEachSuffixLikeASearchDoes) {
  std::mt19937 random(3);
  NgramIndex index(4);
  std::vector<TokenId> text;
  for (int i = 0; i < 300; ++i) {
    text.push_back(static_cast<TokenId>(random() % 3));
    index.append(text.back());
  }
  for (int n = 1; n <= 4; ++n) {
    for (int end = n - 1; end < 300; ++end) {
      int expected = -1;
      for (int earlier = end - 1; earlier >= n - 1 && expected < 0; --earlier) {
        if (std::equal(text.begin() + end - n + 1, text.begin() + end + 1,
                       text.begin() + earlier - n + 1)) {
          expected = earlier;
        }
      }
      ASSERT_EQ(index.previous(n, end), expected) << "n " << n << " end " << end;
    }
  }
}

TEST(NgramDrafter, ContinuesAsTheTextWentOnBefore) {
  const DraftTree tree = proposal("ngram:levels=3", {1, 2, 3, 4, 5, 9, 1, 2});
  EXPECT_EQ(likeliest_path(tree), (std::vector<TokenId>{3, 4, 5}));
}

TEST(NgramDrafter, ProposesNothingForNewText) {
  EXPECT_EQ(proposal("ngram", {1, 2, 3, 4}).draft_nodes(), 0);
  EXPECT_EQ(proposal("ngram", {1}).draft_nodes(), 0);
}

TEST(NgramDrafter, MergesSeveralPlacesIntoOneTree) {
  const DraftTree tree =
      proposal("ngram:levels=2", {1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2, 6, 7, 0, 1, 2});
  const NodeId three = tree.child(0, 3), six = tree.child(0, 6);
  ASSERT_GT(three, 0);
  ASSERT_GT(six, 0);
  EXPECT_GT(tree.child(three, 4), 0);
  EXPECT_GT(tree.child(three, 5), 0);
  EXPECT_GT(tree.child(six, 7), 0);
}

TEST(NgramDrafter, PrefersThePlaceWithTheLongerMatch) {
  // After 8 1 2 came 3; the more recent place of 1 2 alone went on with 6.
  const DraftTree tree = proposal("ngram:levels=1", {8, 1, 2, 3, 9, 1, 2, 6, 8, 1, 2});
  EXPECT_EQ(likeliest_path(tree).front(), 3);
}

TEST(NgramDrafter, GoesOnIntoTheDraftWhenTheTextRepeats) {
  const DraftTree tree = proposal("ngram:levels=7,matches=1", {9, 4, 5, 6, 4, 5, 6});
  EXPECT_EQ(likeliest_path(tree), (std::vector<TokenId>{4, 5, 6, 4, 5, 6, 4}));
}

TEST(NgramDrafter, StaysWithinItsOptionsAndThePlan) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<TokenId> text;
    for (int i = 0; i < 60; ++i) text.push_back(static_cast<TokenId>(random() % 4));
    const DraftTree tree = proposal("ngram:nodes=10,levels=4", text);
    EXPECT_LE(tree.draft_nodes(), 10);
    for (NodeId node = 0; node < tree.size(); ++node) EXPECT_LE(tree.depth(node), 4);
    EXPECT_LE(proposal("ngram", text, 5, 2).draft_nodes(), 5);
    for (const DraftTree& planned = proposal("ngram", text, 30, 2);
         NodeId node : {planned.size() - 1}) {
      EXPECT_LE(planned.depth(node), 2);
    }
  }
}

TEST(NgramDrafter, ObservingInPiecesGivesTheSameTreeAsAtOnce) {
  const std::vector<TokenId> text = {1, 2, 3, 1, 2, 4, 1, 2};
  auto drafter = make_drafter("ngram", {});
  auto state = drafter->start();
  for (std::size_t i = 0; i < text.size(); ++i) {
    drafter->observe(*state, {std::span(text).subspan(i, 1), static_cast<int>(i), {}, i > 0});
  }
  DraftTree tree(2);
  DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
  drafter->propose({&job, 1});
  const DraftTree whole = proposal("ngram", text);
  EXPECT_EQ(tree.tokens(), whole.tokens());
  EXPECT_EQ(tree.parents(), whole.parents());
}

/// Four tokens followed once each, and all are drawn as often: the places alone guess the newest of
/// them, right one time in four.
TEST(NgramDrafter, IsRightMoreOftenWithTheNoiseOfTheDraw) {
  const std::vector<TokenId> text = {50, 1, 101, 50, 2, 102, 50, 3, 103, 50, 4, 104, 50};
  const std::vector<float> logits(5);
  const std::vector<TokenId> followed = {1, 2, 3, 4};
  const SamplerOptions hot{.temperature = 1};
  auto drafter = make_drafter("ngram:levels=1", {});
  auto state = drafter->start();
  drafter->observe(*state, {text, 0, {}, false});
  constexpr int kDraws = 400;
  int with = 0, without = 0;
  for (std::uint64_t seed = 1; seed <= kDraws; ++seed) {
    const PositionRandom random(seed, 0);
    const TokenId drawn =
        race_among(followed, {logits, 0, hot.temperature}, RaceNoise(random, text.size())).token;
    for (const bool races : {true, false}) {
      DraftTree tree(50);
      DraftJob job{state.get(), nullptr, {64, 64, 64},
                   &tree,       &random, static_cast<int>(text.size()) - 1};
      job.sampler = &hot;
      job.races = races;
      drafter->propose({&job, 1});
      (races ? with : without) += likeliest_path(tree).front() == drawn ? 1 : 0;
    }
  }
  EXPECT_NEAR(without, kDraws / 4, 35);  // 4 standard deviations
  EXPECT_NEAR(with, 0.75 * kDraws, 35);
}

/// The newest of four continuations is the likeliest; banned, it leaves its votes to the others.
TEST(NgramDrafter, ProposesNothingThatTheRequestBans) {
  const std::vector<TokenId> text = {50, 1, 101, 50, 2, 102, 50, 3, 103, 50, 4, 104, 50};
  const DraftTree plain = proposal("ngram", text);
  ASSERT_EQ(likeliest_path(plain).front(), 4);
  auto drafter = make_drafter("ngram", {});
  auto state = drafter->start();
  drafter->observe(*state, {text, 0, {}, false});
  const LogitChanges changes(SamplerOptions{.banned = {4, 103}});
  DraftTree tree(50);
  DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
  job.changes = &changes;
  drafter->propose({&job, 1});
  check_invariants(tree);
  ASSERT_GT(tree.draft_nodes(), 0);
  for (const TokenId token : tree.tokens()) EXPECT_TRUE(token != 4 && token != 103) << token;
  const NodeId next = tree.child(0, 3);
  ASSERT_GT(next, 0);
  EXPECT_EQ(likeliest_path(tree).front(), 3);
  EXPECT_GT(tree[next].log_p, plain[plain.child(0, 3)].log_p);
}

TEST(NgramDrafter, ChancesOfSiblingsSumToAtMostOne) {
  const DraftTree tree = proposal("ngram", {1, 2, 3, 1, 2, 4, 1, 2, 5, 2, 6, 1, 2});
  double sum = 0;
  for (NodeId node = 1; node < tree.size(); ++node) {
    const auto i = static_cast<std::size_t>(node);
    if (tree.nodes[i].parent == 0) sum += std::exp(static_cast<double>(tree.nodes[i].log_p));
  }
  EXPECT_GT(sum, 0.1);
  EXPECT_LE(sum, 1.0);
}

}  // namespace
}  // namespace talon::ngram_test
