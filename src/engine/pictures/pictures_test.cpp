#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "io/test_pictures.h"
#include "model/target.h"

// Answers that are pictures, with and without a guide.
namespace talon::pictures_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;

namespace fs = std::filesystem;

constexpr int kCells = 15, kWords = 9, kPrompt = 6;

/// Prompts of six words, pictures of 3 by 5 cells.
fs::path words_folder() {
  return test::unpack_picture("talon_engine_pictures", "words/model.safetensors").parent_path();
}

std::unique_ptr<Backend> cpu(int threads) {
  CpuOptions options;
  options.threads = threads;
  return make_cpu_backend(options);
}

TestModel& model_of(int threads) {
  static TestModel one(words_folder(), cpu(1)), two(words_folder(), cpu(2));
  return threads == 1 ? one : two;
}

std::vector<TokenId> words(std::initializer_list<int> rows) {
  std::vector<TokenId> ids(rows.begin(), rows.end());
  for (TokenId& id : ids) id += model_of(1).vocabulary();
  return ids;
}

Request picture(std::uint64_t seed, float guidance, double temperature = 1) {
  Request request;
  const int word = static_cast<int>(seed % 5);
  request.prompt = words({word, 8, 8, 8, 8, 5 + word % 3});
  request.guidance = guidance;
  request.guide_prompt = words({8, 8, 8, 8, 8, 8});
  request.max_new = kCells;
  request.seed = seed;
  request.sampler.temperature = temperature;
  return request;
}

std::vector<Request> pictures() {
  return {picture(1, 1), picture(2, 2.5F), picture(3, 7, 0.7), picture(4, 2.5F, 0), picture(5, 0)};
}

std::unique_ptr<Drafter> drafter_of(const std::string& name, const TestModel& model) {
  return make_drafter(name, {.target = &model.model});
}

std::vector<std::vector<TokenId>> plain(const std::vector<Request>& requests = pictures()) {
  std::vector<std::vector<TokenId>> tokens;
  for (const Request& request : requests) {
    TestModel& model = model_of(1);
    const Answer answer = TestEngine(model, drafter_of("none", model)).run(request);
    EXPECT_EQ(answer.finish, FinishReason::length);
    EXPECT_EQ(answer.tokens.size(), static_cast<std::size_t>(kCells));
    tokens.push_back(answer.tokens);
  }
  return tokens;
}

/// Trees of random shape in which right codes hide, probes among them.
std::unique_ptr<Drafter> knowing(const std::vector<Request>& requests,
                                 const std::vector<std::vector<TokenId>>& answers) {
  std::vector<std::vector<TokenId>> texts;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    texts.push_back(requests[i].prompt);
    texts.back().insert(texts.back().end(), answers[i].begin(), answers[i].end());
  }
  RandomTreeOptions options;
  options.nodes = 12;
  options.probes = 0.2;
  options.vocabulary = model_of(1).vocabulary();
  return make_random_tree_drafter(options, texts);
}

TEST(Pictures, TreesOfEveryShapeChangeNoCode) {
  const auto expected = plain();
  for (const int threads : {1, 2}) {
    TestOptions options;
    options.policy = "fixed";
    TestEngine engine(model_of(threads), knowing(pictures(), expected), options);
    const std::vector<Answer> answers = engine.run(pictures());
    int accepted = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, expected[i]) << i;
      for (const int count : answers[i].statistics.accepted) accepted += count;
    }
    EXPECT_GT(accepted, 10);
  }
}

TEST(Pictures, DraftsBatchesChunksAndThreadsChangeNoCode) {
  const auto expected = plain();
  for (const char* drafter : {"none", "jacobi", "grid", "suffix", "jacobi+grid"}) {
    for (const char* policy : {"fixed", "throughput"}) {
      for (const int threads : {1, 2}) {
        TestOptions options;
        options.policy = policy;
        options.chunk = threads == 1 ? 256 : 2;
        TestModel& model = model_of(threads);
        TestEngine engine(model, drafter_of(drafter, model), options);
        const std::vector<Answer> answers = engine.run(pictures(), threads == 1 ? 0 : 1);
        for (std::size_t i = 0; i < answers.size(); ++i)
          EXPECT_EQ(answers[i].tokens, expected[i]) << drafter << ' ' << policy << ' ' << i;
      }
    }
  }
}

/// Rows at one depth of a tree may be guided and those below them not.
TEST(Pictures, GuidanceThatEndsWithinATreeChangesNoCode) {
  const auto whole = plain();
  int changed = 0;
  for (const int guided : {1, 4, 9, 14}) {
    std::vector<Request> requests = pictures();
    for (Request& request : requests) request.guidance_tokens = guided;
    const auto expected = plain(requests);
    TestOptions options;
    options.policy = "fixed";
    TestEngine engine(model_of(1), knowing(requests, expected), options);
    const std::vector<Answer> answers = engine.run(requests);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, expected[i]) << guided << ' ' << i;
      EXPECT_TRUE(std::equal(whole[i].begin(), whole[i].begin() + guided, expected[i].begin()))
          << guided << ' ' << i;
      changed += expected[i] != whole[i] ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 0);
}

/// Of a tree whose rows stand before and behind the last token that is guided, the logits of those
/// are what each would be of a tree that is all of one kind.
TEST(Pictures, RowsBehindTheLastGuidedTokenHaveTheirOwnLogits) {
  TestModel& model = model_of(1);
  const Request request = picture(2, 3);
  const std::vector<TokenId> codes = {7, 5, 9, 3, 4};
  const std::vector<NodeId> parents = {-1, 0, 0, 1, 3};  // depths 0, 1, 1, 2, 3
  const auto logits = [&](float guidance, int guided_until) {
    KvCache cache(*model.backend, kv_shape(model.model.config, 4, KvType::f32));
    Target target(model.model, cache, 64);
    KvSequence sequence = cache.start({}, false);
    if (guidance > 1) sequence.pair(cache.start({}, false), request.guide_prompt);
    EXPECT_TRUE(sequence.reserve(kPrompt + static_cast<int>(codes.size())));
    SequenceRows rows{.sequence = &sequence, .tokens = request.prompt, .parents = {}};
    rows.picture_prompt = kPrompt;
    rows.guidance = guidance;
    target.forward({&rows, 1});
    const std::vector<NodeId> all = {0, 1, 2, 3, 4, 5};
    sequence.keep(all, request.prompt);
    rows.tokens = codes;
    rows.parents = parents;
    rows.guided_until = guided_until;
    const View found = target.forward({&rows, 1}).logits;
    std::vector<std::vector<float>> values(codes.size());
    for (std::size_t row = 0; row < codes.size(); ++row) {
      values[row].resize(static_cast<std::size_t>(model.vocabulary()));
      model.backend->download(found.row_range(static_cast<int>(row), 1), values[row]);
    }
    return values;
  };
  const auto guided = logits(3, INT32_MAX), own = logits(1, INT32_MAX);
  const auto some = logits(3, kPrompt + 3);  // the rows of depths 0 and 1 see fewer
  for (const std::size_t row : {0, 1, 2}) {
    EXPECT_EQ(some[row], guided[row]) << row;
    EXPECT_NE(some[row], own[row]) << row;
  }
  for (const std::size_t row : {3, 4}) EXPECT_EQ(some[row], own[row]) << row;
}

TEST(Pictures, GuidanceChangesThePicture) {
  TestModel& model = model_of(1);
  const auto run = [&](float guidance) {
    return TestEngine(model, drafter_of("none", model)).run(picture(2, guidance)).tokens;
  };
  EXPECT_EQ(run(0), run(1)) << "no guide";
  EXPECT_NE(run(4), run(1));
}

/// A guide that says the same changes nothing but what rounding does: u + s (c - u) = u.
TEST(Pictures, AGuideWithTheSamePromptChangesNothing) {
  TestModel& model = model_of(1);
  Request request = picture(2, 3);
  request.guide_prompt = request.prompt;
  Request alone = picture(2, 1);
  EXPECT_EQ(TestEngine(model, drafter_of("none", model)).run(request).tokens,
            TestEngine(model, drafter_of("none", model)).run(alone).tokens);
}

/// Two texts for each: with three pages of 64 rows, only one guided picture runs at a time, and one
/// that is set back is drawn again to the same codes.
TEST(Pictures, FewPagesChangeNoCode) {
  const auto expected = plain();
  for (const int pages : {2, 3, 5}) {
    TestModel& model = model_of(1);
    TestEngine engine(model, drafter_of("jacobi", model), {}, pages);
    const std::vector<Answer> answers = engine.run(pictures());
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i]);
    EXPECT_EQ(engine.cache.free_pages(), pages) << "all pages are given back";
  }
}

TEST(Pictures, ACancelledOneLeavesOthersAlone) {
  const auto expected = plain();
  TestModel& model = model_of(1);
  TestEngine engine(model, drafter_of("grid", model));
  const std::vector<Request> all = pictures();
  const SequenceId gone = engine.submit(all[1]);
  engine.engine.step();
  engine.engine.step();
  const SequenceId kept = engine.submit(all[2]);
  engine.engine.cancel(gone);
  Answer answer;
  while (!engine.engine.idle()) {
    for (const Progress& progress : engine.engine.step())
      if (progress.sequence == kept) engine.note(progress, answer);
  }
  EXPECT_EQ(answer.tokens, expected[2]);
}

TEST(Pictures, OneThatIsNotToBeReusedLeavesNoRowsToLaterOnes) {
  TestModel& model = model_of(1);
  TestEngine engine(model, drafter_of("none", model));
  Request alone = picture(1, 2.5F);
  alone.reuse_prefix = false;
  engine.run(alone);
  for (const auto& prompt : {alone.prompt, alone.guide_prompt}) {
    Request later = picture(1, 1);
    later.prompt = prompt;
    EXPECT_EQ(engine.run(later).statistics.reused_tokens, 0);
    EXPECT_EQ(engine.run(later).statistics.reused_tokens, kPrompt - 1);
  }
}

std::string refusal_of(TestModel& model, const Request& request, int pages = 64) {
  TestEngine engine(model, drafter_of("none", model), {}, pages);
  const auto result = engine.engine.submit(request);
  const auto* refusal = std::get_if<Refusal>(&result);
  return refusal ? refusal->message : "taken";
}

TEST(Pictures, BadRequestsAreRefused) {
  TestModel& model = model_of(1);
  EXPECT_EQ(refusal_of(model, picture(1, 2)), "taken");
  for (const float scale :
       {-1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(refusal_of(model, picture(1, scale)).substr(0, 35),
              "guidance: expected a number from 0 ")
        << scale;
  }
  Request request = picture(1, 2);
  request.guide_prompt.pop_back();
  EXPECT_EQ(refusal_of(model, request),
            "guide_prompt: expected 6 tokens, as the prompt has, found 5");
  request = picture(1, 2);
  request.guidance_tokens = -1;
  EXPECT_EQ(refusal_of(model, request).substr(0, 32), "guidance_tokens: expected from 0");
  request = picture(1, 2);
  request.guide_prompt[0] = 3;
  EXPECT_EQ(refusal_of(model, request), "guide_prompt: expected ids from 40 to 48, found 3");
  request = picture(1, 2);
  request.prompt[0] = 39;
  EXPECT_EQ(refusal_of(model, request), "prompt token 0: expected an id from 40 to 48, found 39");
  request.prompt[0] = model.vocabulary() + kWords;
  EXPECT_EQ(refusal_of(model, request), "prompt token 0: expected an id from 40 to 48, found 49");
  request = picture(1, 1);
  request.prompt.pop_back();
  EXPECT_EQ(refusal_of(model, request), "prompt: expected 6 tokens, as every picture has, found 5");
  request = picture(1, 1);
  request.sampler.repetition_penalty = 1.1;
  EXPECT_NE(refusal_of(model, request).find("repetition_penalty"), std::string::npos);
  EXPECT_NE(refusal_of(model, picture(1, 2), 1).find("guidance: expected a cache of"),
            std::string::npos);
}

/// Its first window has no token of the prompt, which no draft of a picture may hold.
TEST(Pictures, LookaheadsWindowGrows) {
  TestModel& model = model_of(1);
  TestOptions options;
  options.policy = "fixed";
  int rounds = 0, probed = 0;
  options.observer = [&](const RoundReport& report) {
    ++rounds;
    probed += report.tree->draft_nodes() > 0 ? 1 : 0;
  };
  TestEngine engine(model, drafter_of("lookahead:window=3,ngram=3,text=off", model), options);
  engine.run(picture(1, 1));
  EXPECT_GT(2 * probed, rounds);
}

TEST(Pictures, DraftersForTextsAreRefused) {
  for (const char* drafter : {"medusa:head=x", "dflash:head=x", "mtp", "draft:model=self"}) {
    try {
      drafter_of(drafter, model_of(1));
      ADD_FAILURE() << drafter;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("a model that writes text, found one that draws"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Pictures, TextsHaveNoGuide) {
  TestModel text(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  Request request;
  request.prompt = {1, 5};
  request.guidance = 2;
  EXPECT_EQ(refusal_of(text, request).substr(0, 62),
            "guidance: expected at most 1 of a model that writes text, foun");
}

}  // namespace
}  // namespace talon::pictures_test
