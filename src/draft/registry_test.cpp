#include "draft/registry.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "draft/head_options.h"
#include "io/checkpoint.h"
#include "model/model.h"

namespace talon::registry_test {
namespace {

TEST(Drafters, TheTableNamesEachDrafterOnceAndDescribesIt) {
  std::vector<std::string_view> names;
  for (const DrafterEntry& entry : drafters()) {
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_EQ(std::count(names.begin(), names.end(), entry.name), 0) << entry.name;
    names.push_back(entry.name);
  }
  EXPECT_EQ(names.front(), "none");
}

TEST(Drafters, AnUnknownNameIsRefusedWithTheNamesThatExist) {
  try {
    make_drafter("ngrams", {});
    FAIL();
  } catch (const UsageError& error) {
    const std::string_view message = error.what();
    EXPECT_TRUE(message.starts_with(
        "drafter: expected one of none, ngram, suffix, grid, jacobi, lookahead, eagle"))
        << message;
    EXPECT_TRUE(message.ends_with(", found \"ngrams\"")) << message;
  }
}

TEST(Drafters, OptionsAreChecked) {
  EXPECT_NO_THROW(make_drafter("ngram:nodes=8,levels=4,ngram=3,matches=2", {}));
  EXPECT_THROW(make_drafter("ngram:nodes=0", {}), UsageError);
  EXPECT_THROW(make_drafter("ngram:topk=3", {}), UsageError);
  EXPECT_THROW(make_drafter("none:nodes=1", {}), UsageError);
}

TEST(Drafters, AStageIsRefusedWhereTheModelDraftsATree) {
  const Model target{};
  const DrafterContext context{.target = &target};
  for (const char* text :
       {"draft:model=nowhere,topk=3,stage=suffix", "draft:model=nowhere,topk=2,stage=ngram"}) {
    try {
      make_drafter(text, context);
      FAIL();
    } catch (const UsageError& error) {
      const std::string_view message = error.what();
      EXPECT_TRUE(message.starts_with("draft: stage: expected topk=1, since it guesses a chain"))
          << message;
    }
  }
}

TEST(Drafters, AStageThatIsAHeadAndItsFileBelongTogether) {
  const Model target{};
  const DrafterContext context{.target = &target};
  const std::pair<const char*, const char*> wrong[] = {
      {"draft:model=nowhere,stage=eagle3", "draft: stage=eagle3: needs stage_head=PATH"},
      {"draft:model=nowhere,stage_head=h", "draft: option stage_head: expected a stage that is a"},
      {"draft:model=nowhere,stage=suffix,stage_head=h",
       "option stage_head: expected a stage that"}};
  for (const auto& [text, expected] : wrong) {
    try {
      make_drafter(text, context);
      FAIL() << text;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string_view(error.what()).find(expected), std::string_view::npos)
          << error.what();
    }
  }
}

TEST(Drafters, SayWhichFilesTheirWeightsAreFrom) {
  const std::string golden = TALON_TEST_DATA "/golden/";
  const auto backend = make_cpu_backend({.threads = 1});
  const Model target = load_model(open_checkpoint(golden + "stories260k/target"), *backend);
  const auto files_of = [&](const std::string& text) {
    return make_drafter(text, {.target = &target})->traits().weight_files;
  };
  using Files = std::vector<std::filesystem::path>;
  for (const auto& [name, head] :
       {std::pair{"eagle2", "stories260k/eagle1_head"},
        std::pair{"eagle3", "stories260k/eagle3_head"}, std::pair{"dflash", "blocks/dflash/head"},
        std::pair{"dspark", "blocks/dspark/head"}, std::pair{"peagle", "blocks/peagle/head"}}) {
    EXPECT_EQ(files_of(name + (":head=" + golden) + head), Files{golden + head}) << name;
  }
  EXPECT_EQ(files_of("suffix"), Files{});
  const Files merged = {target.source, golden + "stories260k/eagle3_head"};
  EXPECT_EQ(files_of("draft:model=self+suffix+eagle3:head=" + merged[1].string()), merged);
}

TEST(Drafters, SeveralAreJoinedWithPlus) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split_drafters("suffix"), Parts{"suffix"});
  EXPECT_EQ(split_drafters("suffix+ngram:nodes=8,levels=2+none"),
            (Parts{"suffix", "ngram:nodes=8,levels=2", "none"}));
  EXPECT_EQ(split_drafters("eagle:head=a+b.bin+ngram"), (Parts{"eagle:head=a+b.bin", "ngram"}));
  EXPECT_NO_THROW(make_drafter("suffix+ngram:nodes=8", {}));
  EXPECT_THROW(make_drafter("suffix+ngrams", {}), UsageError);
  EXPECT_THROW(make_drafter("suffix+", {}), UsageError);
  EXPECT_THROW(make_drafter("+suffix", {}), UsageError);
  EXPECT_THROW(make_drafter("suffix:nodes=8+ngrams", {}), UsageError);
}

/// What a head that says `origin` of its training sees of a text.
int usual_window(const std::string& origin) {
  Checkpoint head = {};
  head.metadata = {{"talon.origin", origin}};
  Options options(OptionText("eagle"), window_options());
  return read_window(options, head, /*own=*/0).newest;
}

TEST(HeadOptions, TheWindowIsAsLongAsTheTextsThatAHeadWasTrainedWith) {
  EXPECT_EQ(usual_window(R"({"settings":{"max_tokens":512}})"), 512);
}

TEST(HeadOptions, WhatAStrangersHeadSaysOfItsTrainingIsReadWithBounds) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_EQ(usual_window(R"({"settings":{"max_tokens":512},"more":)" + deep + "}"), 0);
  EXPECT_EQ(usual_window("{"), 0);
}

}  // namespace
}  // namespace talon::registry_test
