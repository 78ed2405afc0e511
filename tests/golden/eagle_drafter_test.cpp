#include "draft/eagle/eagle_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "eagle_run.h"
#include "io/checkpoint.h"

namespace talon::eagle_drafter_test {
namespace {

DraftTree draft(Drafter& drafter, const FeaturedText& text, TreePlan plan = kNoLimit) {
  const auto state = drafter.start();
  observe(drafter, *state, text, 0, static_cast<int>(text.tokens.size()));
  return propose(drafter, *state, text.tokens.back(), plan);
}

std::vector<TokenId> story(int length) {
  const std::vector<TokenId> start = {1,   403, 407, 261, 378, 432, 383, 286,
                                      261, 376, 298, 315, 421, 395, 317, 426};
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i)
    tokens.push_back(i == 0 ? 1 : start[static_cast<std::size_t>(1 + (i - 1) % 15)]);
  return tokens;
}

void expect_equal(const DraftTree& a, const DraftTree& b) {
  EXPECT_EQ(a.tokens(), b.tokens());
  EXPECT_EQ(a.parents(), b.parents());
  EXPECT_EQ(a.log_ps(), b.log_ps());
}

struct Case {
  const char* name;
  const char* drafter;
  const char* head;
};
void PrintTo(const Case& the_case, std::ostream* out) { *out << the_case.name; }
const Case kCases[] = {
    {"Eagle1", "eagle", "eagle1_head"},
    {"Eagle2", "eagle2:topk=6,levels=4,nodes=20", "eagle1_head"},
    {"Eagle3", "eagle3:topk=6,levels=4,nodes=20", "eagle3_head"},
    {"Eagle3WithSinks", "eagle3:topk=6,levels=4,nodes=20,window=11,sinks=3", "eagle3_head"}};

class EagleDrafters : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Drafter> make() const {
    return eagle_target().make_drafter(GetParam().drafter, GetParam().head);
  }
};

TEST_P(EagleDrafters, ManyJobsInOneCallDraftAsEachAlone) {
  const auto drafter = make();
  std::vector<FeaturedText> texts;
  for (const int length : {5, 16, 90, 2, 31, 140, 40})
    texts.push_back(featured(story(length), drafter->taps()));
  std::vector<std::unique_ptr<DraftState>> states;
  std::vector<DraftTree> trees;
  std::vector<DraftJob> jobs;
  for (const FeaturedText& text : texts) {
    states.push_back(drafter->start());
    observe(*drafter, *states.back(), text, 0, static_cast<int>(text.tokens.size()));
    trees.emplace_back(text.tokens.back());
  }
  for (std::size_t i = 0; i < texts.size(); ++i)
    jobs.push_back({states[i].get(), nullptr, kNoLimit, &trees[i]});
  drafter->propose(jobs);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_GT(trees[i].draft_nodes(), 0);
    expect_equal(trees[i], draft(*drafter, texts[i]));
  }
}

/// The head's cache holds what a pass over the whole text with the target's features gives,
/// whatever happened on the way.
TEST_P(EagleDrafters, PiecesPausesAndDraftsOnTheWayChangeNothing) {
  const auto drafter = make();
  const FeaturedText text = featured(story(150), drafter->taps());
  const DraftTree whole = draft(*drafter, text);
  for (const int piece : {1, 7, 149}) {
    for (const bool drafts_on_the_way : {false, true}) {
      const auto state = drafter->start();
      for (int first = 0; first < 150; first += piece) {
        const int count = std::min(piece, 150 - first);
        observe(*drafter, *state, text, first, count);
        const bool drafts = drafts_on_the_way && first + count < 150 && first % 3 == 0;
        if (drafts)
          propose(*drafter, *state, text.tokens[static_cast<std::size_t>(first + count - 1)]);
      }
      expect_equal(propose(*drafter, *state, text.tokens.back()), whole);
      expect_equal(propose(*drafter, *state, text.tokens.back()), whole);
    }
  }
}

/// A later sequence begins like an earlier one: the target's rows of that beginning are not run
/// again.
TEST_P(EagleDrafters, AResumedStateDraftsAsOneThatSawEverything) {
  const auto drafter = make();
  const FeaturedText text = featured(story(200), drafter->taps());
  EXPECT_EQ(drafter->remembers(text.tokens, {}), 0);
  const DraftTree whole = draft(*drafter, text);
  const int known = drafter->remembers(text.tokens, {});
  EXPECT_EQ(known, 199);  // all but the last, which is always to be run
  for (const int from : {known, 2 * kPageRows + 1, 70, 2}) {
    const auto state =
        drafter->resume(std::span(text.tokens).first(static_cast<std::size_t>(from)), {}, {});
    observe(*drafter, *state, text, from, 200 - from);
    expect_equal(propose(*drafter, *state, text.tokens.back()), whole);
  }
  std::vector<TokenId> other = text.tokens;
  other[0] = 2;  // which no name of a pair but the first tells
  EXPECT_EQ(drafter->remembers(other, {}), 0);
  EXPECT_EQ(drafter->remembers(std::span(text.tokens).first(1), {}), 0);
}

/// Pairs wait until a draft is wanted: a sequence without one leaves them, too.
TEST_P(EagleDrafters, AFinishedSequenceIsRememberedEvenIfNothingWasDraftedForIt) {
  const auto drafter = make();
  const FeaturedText text = featured(story(100), drafter->taps());
  auto state = drafter->start();
  observe(*drafter, *state, text, 0, 100);
  drafter->finish(*state, true);
  state.reset();
  const int known = drafter->remembers(text.tokens, {});
  EXPECT_EQ(known, 99);
  const auto later = drafter->resume(std::span(text.tokens).first(99), {}, {});
  observe(*drafter, *later, text, 99, 1);
  const DraftTree resumed = propose(*drafter, *later, text.tokens.back());
  expect_equal(resumed, draft(*make(), text));
}

/// As in a crowd that fills the machine: keeping the head up costs time that no draft brings back.
TEST_P(EagleDrafters, AHeadThatNobodyWantsDraftsOfSleepsAndWantedDraftsWakeIt) {
  const auto drafter = make();
  const FeaturedText text = featured(story(400), drafter->taps());
  const std::span<const TokenId> begin = std::span(text.tokens).first(300);
  auto state = drafter->start();
  observe(*drafter, *state, text, 0, 100);
  for (int i = 100; i < 300; ++i) observe(*drafter, *state, text, i, 1);
  EXPECT_EQ(drafter->remembers(begin, {}), 300) << "it holds nobody back";
  drafter->finish(*state, true);

  const auto later = drafter->resume(begin.first(290), {}, {});
  observe(*drafter, *later, text, 290, 10);
  EXPECT_GT(propose(*drafter, *later, begin.back()).draft_nodes(), 0);
  EXPECT_GT(propose(*drafter, *state, begin.back()).draft_nodes(), 0);
  std::vector<TokenId> other = text.tokens;
  other[0] = 2;
  EXPECT_EQ(drafter->remembers(other, {}), 400) << "two drafts do not wake it";
  for (int i = 0; i < 4; ++i) propose(*drafter, *later, begin.back());
  EXPECT_EQ(drafter->remembers(other, {}), 0) << "it is awake";
  EXPECT_EQ(drafter->lost_rows(), 0);
  const auto anew = drafter->start();
  observe(*drafter, *anew, text, 0, 400);
  expect_equal(propose(*drafter, *anew, text.tokens.back()), draft(*make(), text));
}

TEST_P(EagleDrafters, ATreeStaysWithinItsPlan) {
  const auto drafter = make();
  const FeaturedText text = featured(story(16), drafter->taps());
  const DraftTree whole = draft(*drafter, text);
  for (const TreePlan& plan : {TreePlan{1, 8, 8}, TreePlan{3, 2, 8}, TreePlan{8, 1, 8},
                               TreePlan{8, 8, 1}, TreePlan{0, 8, 8}, TreePlan{8, 0, 8}}) {
    const DraftTree tree = draft(*drafter, text, plan);
    EXPECT_LE(tree.draft_nodes(), plan.nodes);
    for (NodeId node = 1; node < tree.size(); ++node) EXPECT_LE(tree.depth(node), plan.levels);
    EXPECT_EQ(tree.draft_nodes() > 0, plan.nodes > 0 && plan.levels > 0);
    EXPECT_TRUE(tree.draft_nodes() == 0 || tree[1].token == whole[1].token);
  }
}

TEST_P(EagleDrafters, TheFirstTokenAloneHasNoFeatureAndSoNoDraft) {
  const auto drafter = make();
  const FeaturedText text = featured(story(1), drafter->taps());
  EXPECT_EQ(draft(*drafter, text).draft_nodes(), 0);
}

TEST_P(EagleDrafters, NearTheEndOfTheContextTheTreeEndsWithIt) {
  const auto drafter = make();
  const int context = eagle_target().model.config.context;
  const FeaturedText text = featured(story(context - 2), drafter->taps());
  const DraftTree tree = draft(*drafter, text);
  for (NodeId node = 1; node < tree.size(); ++node) EXPECT_LE(tree.depth(node), 3);
  EXPECT_GT(tree.draft_nodes(), 0);
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, EagleDrafters, testing::ValuesIn(kCases), case_name);

TEST(EagleCache, ASequenceThatFindsNoRoomIsNotDraftedForAndDisturbsNoOther) {
  const auto folder = std::string(TALON_TEST_DATA) + "/golden/stories260k/eagle3_head";
  const Model& model = eagle_target().model;
  EagleOptions options;
  options.dynamic = {4, 4, 3, 10};
  options.cache_positions = 1;  // eight pages in all
  const auto small = make_eagle_drafter(load_head(open_checkpoint(folder), model), model, options);
  const FeaturedText longer = featured(story(400), small->taps()),
                     shorter = featured(story(40), small->taps());
  const auto first = small->start(), second = small->start(), third = small->start();
  observe(*small, *first, longer, 0, 400);
  EXPECT_GT(propose(*small, *first, longer.tokens.back()).draft_nodes(), 0);
  observe(*small, *second, longer, 0, 400);
  EXPECT_EQ(propose(*small, *second, longer.tokens.back()).draft_nodes(), 0);
  EXPECT_EQ(small->lost_rows(), 399);  // a row for every token but the first
  observe(*small, *third, shorter, 0, 40);
  const DraftTree tree = propose(*small, *third, shorter.tokens.back());
  options.cache_positions = 0;
  const auto large = make_eagle_drafter(load_head(open_checkpoint(folder), model), model, options);
  expect_equal(tree, draft(*large, shorter));
}

TEST(EagleTrees, AChainIsTheLikeliestPath) {
  const auto chain = eagle_target().make_drafter("eagle:topk=1,levels=7", "eagle1_head");
  const FeaturedText text = featured(story(16), chain->taps());
  const DraftTree tree = draft(*chain, text);
  EXPECT_EQ(tree.parents(), (std::vector<NodeId>{-1, 0, 1, 2, 3, 4, 5, 6}));
  expect_equal(
      tree,
      draft(*eagle_target().make_drafter("eagle2:topk=1,levels=7,nodes=7", "eagle1_head"), text));
}

TEST(EagleTrees, ANamedOneIsDraftedWhole) {
  const auto drafted = [](const std::string& options) {
    const auto drafter = eagle_target().make_drafter(options, "eagle1_head");
    return draft(*drafter, featured(story(16), drafter->taps()));
  };
  for (const char* drafter : {"eagle:tree=", "eagle2:tree="}) {
    for (const auto& [name, nodes] :
         {std::pair("naive_extend_57", 57), {"medusa_2_7b_63", 63}, {"chain", 5}}) {
      EXPECT_EQ(drafted(std::string(drafter) + name).draft_nodes(), nodes) << drafter << name;
    }
    const std::string whole = std::string(drafter) + "medusa_2_7b_63";
    EXPECT_EQ(drafted(whole + ",nodes=20").draft_nodes(), 20);
    EXPECT_EQ(drafted(whole + ",levels=1").draft_nodes(), 10);
    EXPECT_EQ(drafted(whole + ",levels=2,topk=2").draft_nodes(), 6);
    // More levels than eagle2's own trees have.
    const std::string file = testing::TempDir() + "deep_tree.json";
    std::ofstream(file)
        << "[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0],[0,0,0,0,0,0],[0,0,0,0,0,0,0]]";
    EXPECT_EQ(drafted(std::string(drafter) + file).draft_nodes(), 7);
  }
}

}  // namespace
}  // namespace talon::eagle_drafter_test
