#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "eagle_run.h"

namespace talon::eagle_waiting_test {
namespace {

/// Notes how many tokens each drafter says it has yet to run.
struct Asked : PolicyState {
  TreePlan plan(const PlanContext&) override { return kNoLimit; }
  bool start(const DraftTree&, int waiting) override {
    told.push_back(waiting);
    return wants_drafts;
  }
  std::vector<int> told;
  bool wants_drafts = false;
};

struct Case {
  const char* name;
  const char* drafter;
  const char* head;  // of EagleTarget::make_drafter
  int first;         // tokens before the root that 20 tokens leave: pairs are one less than tokens
};
void PrintTo(const Case& the_case, std::ostream* out) { *out << the_case.name; }

class WhatWaits : public testing::TestWithParam<Case> {};

TEST_P(WhatWaits, IsToldToThePolicyUntilItIsRun) {
  const auto drafter = eagle_target().make_drafter(GetParam().drafter, GetParam().head);
  std::vector<TokenId> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(1 + 7 * i);
  const FeaturedText text = featured(tokens, drafter->taps());
  const auto state = drafter->start();
  Asked policy;
  const auto ask_after = [&](int first, int count) {
    observe(*drafter, *state, text, first, count);
    DraftTree tree(tokens[static_cast<std::size_t>(first + count - 1)]);
    DraftJob job{.state = state.get(), .policy = &policy, .plan = {4, 2, 4}, .tree = &tree};
    job.position = first + count - 1;
    drafter->propose({&job, 1});
    return tree.draft_nodes();
  };
  EXPECT_EQ(ask_after(0, 20), 0);
  EXPECT_EQ(ask_after(20, 5), 0);
  policy.wants_drafts = true;
  EXPECT_GT(ask_after(25, 1), 0);
  EXPECT_GT(ask_after(26, 4), 0);
  EXPECT_GT(ask_after(30, 1), 0);
  const int all = GetParam().first;
  EXPECT_EQ(policy.told, (std::vector<int>{all, all + 5, all + 6, 3, 0}));
}

/// Of each its newest tokens and what the stage guesses after them.
TEST(StagedDraftModel, ReadsWhatEightTextsHaveWaiting) {
  const auto drafter = eagle_target().make_drafter("draft:model=self,levels=6,stage=suffix", "");
  std::vector<TokenId> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(100 + i % 5);
  const FeaturedText text = featured(tokens, {});
  std::vector<std::unique_ptr<DraftState>> states;
  std::vector<DraftTree> trees(8, DraftTree(0));
  const auto draft_after = [&](int first, int count) {
    std::vector<DraftJob> jobs;
    for (std::size_t i = 0; i < states.size(); ++i) {
      observe(*drafter, *states[i], text, first, count);
      trees[i].reset(tokens[static_cast<std::size_t>(first + count - 1)]);
      jobs.push_back({.state = states[i].get(), .plan = kNoLimit, .tree = &trees[i]});
    }
    drafter->propose(jobs);
  };
  for (int i = 0; i < 8; ++i) states.push_back(drafter->start());
  draft_after(0, 24);
  draft_after(24, 16);
  for (const DraftTree& tree : trees) EXPECT_GT(tree.draft_nodes(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, WhatWaits,
    testing::Values(Case{"Eagle1", "eagle", "eagle1_head", 18},
                    Case{"Eagle3", "eagle3:topk=6,levels=4,nodes=20", "eagle3_head", 18},
                    Case{"Dflash", "dflash", TALON_TEST_DATA "/golden/blocks/dflash/head", 18},
                    Case{"Peagle", "peagle", TALON_TEST_DATA "/golden/blocks/peagle/head", 18},
                    Case{"DraftModel", "draft:model=self", "", 19}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace talon::eagle_waiting_test
