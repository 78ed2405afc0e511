#include "learn/learn_state.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "core/error.h"
#include "draft/head/gguf_head.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "learn/learned_heads.h"
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

TEST(LearnState, FieldsOfAnotherTypeOrOutOfRangeAreRefusedByName) {
  const DataFolder folder;
  const std::pair<const char*, Json> wrong[] = {{"head", 7},
                                                {"head", "../../etc"},
                                                {"head", "heads/../../x"},
                                                {"head", "heads/1"},
                                                {"rounds", -1},
                                                {"rounds", 1e300},
                                                {"swaps", 1.5},
                                                {"swaps", "many"},
                                                {"fresh_tokens", UINT64_MAX},
                                                {"fresh_tokens", -5},
                                                {"ordinary_tau", -1},
                                                {"ordinary_tau", 1e300},
                                                {"ordinary_tau", {1}},
                                                {"target_fingerprint", 3},
                                                {"kind", nullptr}};
  for (const auto& [field, value] : wrong) {
    Json json = {{"target_fingerprint", "abc"},
                 {"kind", "eagle3"},
                 {"head", "heads/0001"},
                 {"rounds", 1},
                 {"swaps", 1},
                 {"fresh_tokens", 1},
                 {"ordinary_tau", 2.5}};
    json[field] = value;
    std::ofstream(folder.path() / "state.json") << json;
    try {
      read_state(folder.path(), fresh());
      ADD_FAILURE() << "expected an error: " << json;
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("state.json"), std::string::npos) << said;
      EXPECT_NE(said.find(field), std::string::npos) << said;
      EXPECT_NE(said.find("expected"), std::string::npos) << said;
      EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
    }
  }
  std::ofstream(folder.path() / "state.json") << "[]";
  EXPECT_THROW(read_state(folder.path(), fresh()), Error);
}

void make_head(const std::filesystem::path& head, const std::string& text) {
  std::filesystem::create_directories(head);
  std::ofstream(head / "config.json") << text;
}
bool is_head(const std::filesystem::path& head) {
  return std::filesystem::exists(head / "config.json");
}

TEST(LearnedHeads, AFullDiskLeavesHeadAndStateWhereTheyWere) {
  const DataFolder folder;
  LearnState before = fresh();
  write_state(folder.path(), before);
  const auto trained = folder.path() / "run" / "head";
  make_head(trained, "new");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit none{10, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_THROW(adopt_head(folder.path(), trained, before), Error);
  setrlimit(RLIMIT_FSIZE, &usual);
  EXPECT_TRUE(is_head(trained));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "heads/0001"));
  EXPECT_EQ(read_state(folder.path(), fresh()), before);

  const LearnState after = adopt_head(folder.path(), trained, before);
  EXPECT_EQ(after.head, "heads/0001");
  EXPECT_EQ(after.swaps, 1);
  EXPECT_EQ(read_state(folder.path(), fresh()), after);
  EXPECT_TRUE(is_head(folder.path() / after.head));
  EXPECT_FALSE(is_head(trained));
}

TEST(LearnedHeads, TheOneInUseIsNeverWrittenOver) {
  const DataFolder folder;
  LearnState state = fresh();  // its server was killed before the round was counted
  state.head = "heads/0001";
  make_head(folder.path() / state.head, "in use");
  make_head(folder.path() / "run", "new");
  EXPECT_EQ(adopt_head(folder.path(), folder.path() / "run", state).head, "heads/0002");
  EXPECT_TRUE(is_head(folder.path() / state.head));
}

TEST(LearnedHeads, TheNewestThatCanBeUsedIsBegunWith) {
  const DataFolder folder;
  LearnState state = fresh();
  state.head = "heads/0010";
  for (const char* name : {"heads/0010", "heads/0002", "heads/0001"}) {
    make_head(folder.path() / name, name);
  }
  std::string notes;
  const auto usable = [&] {
    notes.clear();
    return usable_head(
        folder.path(), state,
        [](const auto& head) {
          if (!is_head(head)) throw Error("no head");
        },
        [&](const std::string& note) { notes += note; });
  };
  EXPECT_EQ(usable(), "heads/0010");
  EXPECT_EQ(notes, "");
  std::filesystem::remove_all(folder.path() / "heads/0010");
  EXPECT_EQ(usable(), "heads/0002");
  EXPECT_NE(notes.find("heads/0010"), std::string::npos) << notes;
  std::filesystem::remove_all(folder.path() / "heads");
  EXPECT_EQ(usable(), "");
  EXPECT_NE(notes.find("began with"), std::string::npos) << notes;
}

TEST(LearnedHeads, AreBroughtIntoTheFourBitsOfTheFirst) {
  const std::filesystem::path golden = TALON_TEST_DATA "/golden/stories260k";
  const auto head = golden / "eagle3_head", target = golden / "target";
  const DataFolder folder;
  const auto first = folder.path() / "first.gguf", trained = folder.path() / "trained";
  write_gguf_head(open_checkpoint(head), open_checkpoint(target), HeadStorage::q4_1, first);
  const HeadForm form = form_of(first);
  EXPECT_TRUE(form.in_four_bits);
  EXPECT_FALSE(form.shares_output);
  EXPECT_EQ(form.draft_vocabulary, form_of(head).draft_vocabulary);

  std::filesystem::create_directories(trained);
  EXPECT_FALSE(is_whole_head(trained));
  const auto train = [&] {
    for (const char* file : {"model.safetensors", "config.json"})
      std::filesystem::copy_file(head / file, trained / file);
    EXPECT_TRUE(is_whole_head(trained));
  };
  train();
  bring_into_form(trained, target, form_of(head));
  EXPECT_FALSE(form_of(trained).in_four_bits);
  bring_into_form(trained, target, form);
  EXPECT_TRUE(form_of(trained).in_four_bits);
  train();  // as if it had been cut off before the trainer's files were removed
  for (int i = 0; i < 2; ++i) {
    bring_into_form(trained, target, form);
    EXPECT_TRUE(form_of(trained).in_four_bits);
    EXPECT_TRUE(is_whole_head(trained));
    EXPECT_FALSE(std::filesystem::exists(trained / "model.safetensors"));
  }
}

TEST(LearningHead, IsTakenOutOfTheDraftersText) {
  DecodeSettings settings;
  settings.drafter = "eagle3:nodes=9,head=some/where,taps=0/2/3+suffix";
  settings.heads = [](std::string_view kind) { return std::string(kind) + "-elsewhere"; };
  const LearningHead head = take_learning_head(settings);
  EXPECT_EQ(settings.drafter, "eagle3:nodes=9,taps=0/2/3+suffix");
  EXPECT_EQ(head.taps, "0/2/3");
  EXPECT_EQ(head.path, "some/where");
  const HeadFinder heads = heads_with(head, "learned", settings.heads);
  EXPECT_EQ(heads("eagle3"), "learned");
  EXPECT_EQ(heads("medusa"), "medusa-elsewhere");
}

TEST(LearningHead, LearnsFromTheVectorsOfTheLayersThatItReads) {
  const std::filesystem::path golden = TALON_TEST_DATA "/golden/stories260k";
  const ModelConfig target = read_model_config(open_checkpoint(golden / "target"));
  LearningHead head;
  head.path = golden / "eagle3_head";
  const auto taps_with = [&](const char* given) {
    head.taps = given;
    std::vector<int> layers;
    for (const FeatureTap& tap : taps_to_keep(head, target)) layers.push_back(tap.layer);
    return layers;
  };
  EXPECT_EQ(taps_with(""), (std::vector{1, 2, 4, FeatureTap::kFinalNorm}));
  EXPECT_EQ(taps_with("0/2/3"), (std::vector{0, 2, 3, FeatureTap::kFinalNorm}));
  for (const char* bad : {"2/", "/2", "a", "1/-2/3", "1,2,3"})
    EXPECT_THROW(taps_with(bad), UsageError) << bad;
  EXPECT_THROW(taps_with("1/2"), Error) << "fc reads three";
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
  std::filesystem::create_symlink("loop", from.path() / "loop");
  for (const auto& bad : {from.path() / "loop", from.path() / std::string(300, 'n')}) {
    try {
      import_ordinary_texts(bad, to.path(), target, 100);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(from.path().string().substr(0, 40)),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace talon::test::learn_state_test
