#include "draft/lookup/lookahead.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "draft/lookup/jacobi_window.h"
#include "draft/registry.h"

namespace talon::lookahead_test {
namespace {

/// Of all stages that a window goes through.
int largest_stage(int width, int ngram) {
  JacobiWindow window(width, ngram);
  NgramPool pool(ngram, 1);
  window.begin(std::vector<TokenId>(static_cast<std::size_t>(window.first_tokens()), 7));
  int most = window.nodes();
  for (int round = 0; round < 2 * ngram; ++round) {
    window.advance(7, std::vector<TokenId>(window.levels().back().size(), 7), pool);
    most = std::max(most, window.nodes());
  }
  return most;
}

TEST(JacobiWindows, NeedTheNodesOfTheirLargestStage) {
  for (int width = 2; width <= 12; ++width) {
    for (int ngram = 3; ngram <= 16; ++ngram) {
      EXPECT_EQ(JacobiWindow::most_nodes(width, ngram), largest_stage(width, ngram))
          << width << ' ' << ngram;
    }
  }
  EXPECT_EQ(JacobiWindow::most_nodes(7, 5), 7 * 4 - 1);
}

TEST(Lookahead, AWindowThatNoTreeCanHoldIsRefusedByItsOption) {
  const struct {
    const char* text;
    int needed;
  } windows[] = {{"lookahead", 27}, {"lookahead:window=2,ngram=16", 71}};
  for (const auto& [text, needed] : windows) {
    EXPECT_NO_THROW(make_drafter(text, {})) << "the largest tree is not known";
    EXPECT_NO_THROW(make_drafter(text, {.max_nodes = needed}));
    try {
      make_drafter(text, {.max_nodes = needed - 1});
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      const std::string expected = fmt::format(
          "lookahead: option window: expected a window of at most the {} draft nodes of a tree "
          "(max_nodes), found one of {}",
          needed - 1, needed);
      EXPECT_TRUE(std::string(error.what()).starts_with(expected)) << error.what();
    }
  }
}

/// Probes of the first draft after a short text.
int probes_of(const TreePlan& plan) {
  const auto drafter = make_drafter("lookahead:window=3,ngram=3,text=off", {});
  const auto state = drafter->start();
  const std::vector<TokenId> text = {1, 2, 3};
  drafter->observe(*state, {text, 0, {}, false});
  DraftTree tree(text.back());
  DraftJob job{state.get(), nullptr, plan, &tree};
  drafter->propose({&job, 1});
  return tree.draft_nodes();
}

TEST(Lookahead, AGuessEndsBeforeATokenThatTheRequestBans) {
  const auto drafter = make_drafter("lookahead:window=2,ngram=3", {});
  const auto state = drafter->start();
  const std::vector<TokenId> text = {5, 6, 7, 8, 5};
  drafter->observe(*state, {.tokens = text, .first_has_row = false});
  const auto draft = [&](const std::vector<TokenId>& banned) {
    const LogitChanges changes(SamplerOptions{.banned = banned});
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
    job.changes = &changes;
    drafter->propose({&job, 1});
    std::vector<TokenId> guess;
    for (NodeId node = 0; (node = tree.child(node, text[guess.size() + 1])) > 0;)
      guess.push_back(tree[node].token);
    return guess;
  };
  EXPECT_EQ(draft({}), (std::vector<TokenId>{6, 7}));
  EXPECT_EQ(draft({7}), (std::vector<TokenId>{6}));
  EXPECT_EQ(draft({6}), (std::vector<TokenId>{}));
}

/// The window is the chain of the first and the last token of the text.
TEST(Lookahead, TheFirstWindowHoldsNoTokenThatTheRequestBansThere) {
  const std::vector<TokenId> text = {5, 6, 7, 8, 9};
  const auto first_window = [&](const SamplerOptions& options) {
    const auto drafter = make_drafter("lookahead:window=2,ngram=3,text=off", {});
    const auto state = drafter->start();
    state->prompt_length = static_cast<int>(text.size());
    drafter->observe(*state, {.tokens = text, .first_has_row = false});
    const LogitChanges changes(options);
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
    job.position = static_cast<int>(text.size()) - 1;
    job.changes = &changes;
    drafter->propose({&job, 1});
    const std::vector<TokenId> tokens = tree.tokens();
    return std::vector<TokenId>(tokens.begin() + 1, tokens.end());
  };
  EXPECT_EQ(first_window({}), (std::vector<TokenId>{5, 9}));
  EXPECT_EQ(first_window({.banned = {5}}), (std::vector<TokenId>{9, 9}));
  EXPECT_EQ(first_window({.banned_early = {5}, .least_answer = 1}), (std::vector<TokenId>{9, 9}));
}

TEST(Lookahead, OfTheOfficialKindDraftsNoGuessBeforeTheWindowIsFull) {
  const std::vector<TokenId> text = {5, 6, 7, 8, 5};
  for (const bool official : {false, true}) {
    const auto drafter = make_lookahead_drafter(
        {.window = 2, .ngram = 4, .official = official, .first_window = {1, 2, 3}});
    const auto state = drafter->start();
    drafter->observe(*state, {.tokens = text, .first_has_row = false});
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
    drafter->propose({&job, 1});
    EXPECT_EQ(tree.child(0, 6) > 0, !official);
  }
}

TEST(Lookahead, ARoundThatHasNoRoomForTheWholeWindowHasNone) {
  EXPECT_EQ(probes_of({3, 3, 3}), 3);
  EXPECT_EQ(probes_of({2, 3, 3}), 0);
  EXPECT_EQ(probes_of({3, 2, 3}), 0);
}

}  // namespace
}  // namespace talon::lookahead_test
