#include "learn/learn_state.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "learn/learning_head.h"
#include "learn/ordinary_texts.h"
#include "train/data/test_folder.h"

namespace talon::test::learn_state_test {
namespace {

LearnState fresh() {
  LearnState state;
  state.target_fingerprint = "abc";
  state.kind = "eagle3";
  return state;
}

TEST(LearnState, IsReadAsItWasWritten) {
  const DataFolder folder;
  LearnState state = fresh();
  state.head = "heads/0003";
  state.rounds = 3;
  state.swaps = 2;
  state.fresh_tokens = 77;
  state.ordinary_tau = 2.5;
  write_state(folder.path(), state);
  const LearnState read = read_state(folder.path(), fresh());
  EXPECT_EQ(read.head, state.head);
  EXPECT_EQ(read.rounds, state.rounds);
  EXPECT_EQ(read.swaps, state.swaps);
  EXPECT_EQ(read.fresh_tokens, state.fresh_tokens);
  EXPECT_EQ(read.ordinary_tau, state.ordinary_tau);
}

TEST(LearnState, OfAnotherTargetOrDamagedIsRefusedByName) {
  const DataFolder folder;
  write_state(folder.path(), fresh());
  LearnState other = fresh();
  other.target_fingerprint = "other";
  EXPECT_THROW(read_state(folder.path(), other), Error);
  std::ofstream(folder.path() / "state.json") << "{\"kind\": 3}";
  try {
    read_state(folder.path(), fresh());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("state.json"), std::string::npos) << error.what();
  }
}

TEST(LearningHead, IsTakenOutOfTheDraftersText) {
  DecodeSettings settings;
  settings.drafter = "eagle3:nodes=9,head=some/where+suffix";
  settings.heads = [](std::string_view kind) { return std::string(kind) + "-elsewhere"; };
  const LearningHead head = take_learning_head(settings);
  EXPECT_EQ(settings.drafter, "eagle3:nodes=9+suffix");
  EXPECT_EQ(head.path, "some/where");
  const HeadFinder heads = heads_with(head, "learned", settings.heads);
  EXPECT_EQ(heads("eagle3"), "learned");
  EXPECT_EQ(heads("medusa"), "medusa-elsewhere");
}

TEST(LearningHead, DraftersWithoutOneAreRefused) {
  DecodeSettings settings;
  settings.drafter = "suffix";
  EXPECT_THROW(take_learning_head(settings), UsageError);
}

TEST(OrdinaryTexts, AreCopiedInTwoPartsOnce) {
  const DataFolder from, to;
  fill(from.path(), letters_plan(24), small_work());
  const Manifest target = data_target(small_work().taps);
  import_ordinary_texts(from.path(), to.path(), target, 1 << 20);
  const Dataset source(from.path()), texts(ordinary_folder(to.path())),
      held_out(ordinary_held_out_folder(to.path()));
  EXPECT_EQ(texts.size() + held_out.size(), source.size());
  EXPECT_GT(held_out.size(), 0U);
  const auto all = contents(from.path());
  for (const auto& [tokens, kept] : contents(ordinary_held_out_folder(to.path()))) {
    EXPECT_EQ(kept, all.find(tokens)->second);
    EXPECT_FALSE(contents(ordinary_folder(to.path())).contains(tokens));
  }
  EXPECT_NO_THROW(import_ordinary_texts("/no/such/folder", to.path(), target, 1))
      << "they are there";
}

TEST(OrdinaryTexts, OfAnotherTargetLeaveNothingBehind) {
  const DataFolder from, to;
  fill(from.path(), letters_plan(24), small_work());
  Manifest target = data_target(small_work().taps);
  target.info.model_sha256 = "another";
  EXPECT_THROW(import_ordinary_texts(from.path(), to.path(), target, 100), Error);
  EXPECT_THROW(import_ordinary_texts("/no/such/folder", to.path(), target, 100), Error);
  EXPECT_TRUE(std::filesystem::is_empty(to.path()));
}

}  // namespace
}  // namespace talon::test::learn_state_test
