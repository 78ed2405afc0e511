#include <gtest/gtest.h>

#include <fstream>

#include "backend/cpu/cpu.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "draw/picture_prompt.h"
#include "draw/row_constraint.h"
#include "engine/test_model.h"
#include "io/formats/write_safetensors.h"
#include "io/test_pictures.h"

// Pictures asked for by captions and texts: drafts, batches, chunks and threads change no code.
namespace talon::picture_kinds_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;

namespace fs = std::filesystem;

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / "talon_draw" / name;
  fs::create_directories(folder);
  return folder;
}

/// A tiny model of tests/data/golden/images/record.py.
fs::path folder_of(const std::string& name) {
  return test::unpack_picture("talon_draw", name + "/model.safetensors").parent_path();
}

TestModel open_tiny(const std::string& name, int threads) {
  CpuOptions options;
  options.threads = threads;
  return TestModel(folder_of(name), make_cpu_backend(options));
}

fs::path write_features(const std::string& name, int rows, int width, float first) {
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(first + 0.7F * static_cast<float>(i));
  if (std::isnan(first)) values[0] = first;
  const fs::path file = scratch("features") / name;
  const TensorToWrite tensor{
      "features", StorageType::f32, {rows, width}, std::as_bytes(std::span(values))};
  write_safetensors(file, {&tensor, 1});
  return file;
}

/// Words are tokens.
Tokenizer words_of(const Json& vocabulary, const std::vector<std::string>& special) {
  Json added = Json::array();
  for (const std::string& text : special) {
    added.push_back({{"id", vocabulary.at(text)},
                     {"content", text},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "Whitespace"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};
  const fs::path file = scratch("tokenizer") / "tokenizer.json";
  std::ofstream(file) << json;
  return Tokenizer::from_json_file(file);
}

Tokenizer chameleon_words() {
  return words_of({{"<s>", 0}, {"<unk>", 1}, {"cat", 36}, {"dog", 37}, {"red", 38}, {"a", 39}},
                  {"<s>"});
}

Tokenizer janus_words() {
  return words_of({{"<unk>", 0},
                   {"<begin_of_image>", 5},
                   {"<｜▁pad▁｜>", 6},
                   {"<|User|>", 7},
                   {"<|Assistant|>", 8},
                   {":", 9},
                   {"cat", 10},
                   {"red", 11}},
                  {"<begin_of_image>", "<｜▁pad▁｜>", "<|User|>", "<|Assistant|>"});
}

PicturePrompt prompt_of(const std::string& kind, const Model& model, int index) {
  if (kind == "lantern") {
    const int rows = 1 + index % model.config.image->prompt_tokens;
    return caption_prompt(model, write_features("caption", rows, 24, static_cast<float>(index)));
  }
  const Tokenizer words = kind == "janus" ? janus_words() : chameleon_words();
  const char* const texts[] = {"cat", "red cat", "cat cat red", "red", "red red cat cat cat"};
  return text_prompt(model, &words, texts[index % 5]);
}

std::vector<Request> pictures(const std::string& kind, const Model& model) {
  const float guidance[] = {1, 2.5F, 7, 2.5F, 3, 0};
  const double temperature[] = {1, 1, 0.7, 0, 1.3, 1};
  std::vector<Request> requests(6);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ask_for(model, prompt_of(kind, model, static_cast<int>(i)), guidance[i], requests[i]);
    requests[i].seed = i + 1;
    requests[i].sampler.temperature = temperature[i];
  }
  return requests;
}

std::unique_ptr<Drafter> drafter_of(const std::string& name, const TestModel& model) {
  return make_drafter(name, {.target = &model.model});
}

class PictureKinds : public testing::TestWithParam<const char*> {
 protected:
  std::string kind() const { return GetParam(); }

  std::vector<std::vector<TokenId>> plain(TestModel& model) const {
    std::vector<std::vector<TokenId>> tokens;
    for (const Request& request : pictures(kind(), model.model)) {
      const Answer answer = TestEngine(model, drafter_of("none", model)).run(request);
      EXPECT_EQ(answer.finish, FinishReason::length) << answer.error;
      tokens.push_back(answer.tokens);
    }
    return tokens;
  }
};

TEST_P(PictureKinds, HoldCodesAndWhatStandsBetweenThem) {
  TestModel model = open_tiny(kind(), 1);
  const ImagePlan& plan = *model.model.config.image;
  const auto all = plain(model);
  for (const std::vector<TokenId>& tokens : all) {
    ASSERT_EQ(std::ssize(tokens), plan.answer_tokens());
    const auto codes = codes_of(plan, tokens);
    EXPECT_EQ(std::ssize(codes), plan.cells());
    for (const TokenId code : codes) EXPECT_TRUE(code >= 0 && code != plan.row_end);
    for (int row = 1; plan.row_end >= 0 && row < plan.rows; ++row) {
      const int end = row * plan.row_tokens() - 1;
      EXPECT_EQ(tokens[static_cast<std::size_t>(end)], plan.row_end);
    }
  }
  EXPECT_NE(all[1], all[2]);
}

TEST_P(PictureKinds, DraftsBatchesChunksAndThreadsChangeNoCode) {
  TestModel one = open_tiny(kind(), 1), two = open_tiny(kind(), 2);
  const auto expected = plain(one);
  int accepted = 0;
  std::string drafters[] = {"none", "jacobi", "grid", "suffix+jacobi", "eagle2"};
  if (kind() == "lantern") {
    drafters[4] = "eagle2:topk=4,levels=4,nodes=16,head=" + folder_of("lantern_head").string();
  } else {
    drafters[4] = "ngram";
  }
  for (const std::string& drafter : drafters) {
    for (const char* policy : {"fixed", "throughput"}) {
      for (TestModel* model : {&one, &two}) {
        TestOptions options;
        options.policy = policy;
        options.chunk = model == &one ? 256 : 2;
        TestEngine engine(*model, drafter_of(drafter, *model), options,
                          model == &one ? 64 : 3);  // three pages: one guided picture at a time
        const auto answers = engine.run(pictures(kind(), model->model), model == &one ? 0 : 1);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_EQ(answers[i].tokens, expected[i]) << drafter << ' ' << policy << ' ' << i;
          for (const int count : answers[i].statistics.accepted) accepted += count;
        }
        EXPECT_EQ(engine.cache.free_pages(), engine.cache.total_pages());
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_P(PictureKinds, TreesThatHoldTheRightCodesChangeNone) {
  TestModel model = open_tiny(kind(), 2);
  const auto expected = plain(model);
  const auto asked = pictures(kind(), model.model);
  std::vector<std::vector<TokenId>> texts;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    texts.push_back(asked[i].prompt);
    texts.back().insert(texts.back().end(), expected[i].begin(), expected[i].end());
  }
  RandomTreeOptions tree;
  tree.nodes = 12;
  tree.probes = 0.2;
  tree.vocabulary = model.vocabulary();
  TestOptions options;
  options.policy = "fixed";
  TestEngine engine(model, make_random_tree_drafter(tree, texts), options);
  const auto answers = engine.run(asked);
  int accepted = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].tokens, expected[i]) << i;
    for (const int count : answers[i].statistics.accepted) accepted += count;
  }
  EXPECT_GT(accepted, 5);
}

INSTANTIATE_TEST_SUITE_P(All, PictureKinds, testing::Values("lantern", "anole", "lumina", "janus"),
                         [](const auto& test) { return std::string(test.param); });

/// What must stand behind a row is checked beside its last code: it costs no forward of its own.
TEST(PictureRows, ForcedTokensCostNoForward) {
  TestModel model = open_tiny("lumina", 1);
  TestOptions options;
  options.policy = "fixed";
  Request request = pictures("lumina", model.model)[1];
  TestEngine engine(model, drafter_of("jacobi", model), options);
  const Answer answer = engine.run(request);
  EXPECT_LT(answer.statistics.rounds, model.model.config.image->answer_tokens() - 1);
}

template <typename Ask>
std::string said(const Ask& ask) {
  try {
    ask();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

std::string refusal(const Model& model, const fs::path& file) {
  return said([&] { caption_prompt(model, file); });
}

void contains(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Captions, BadFeaturesAreRefusedByName) {
  const TestModel model = open_tiny("lantern", 1);
  EXPECT_EQ(refusal(model.model, write_features("good", 10, 24, 0)), "no error");
  const std::string expected = "\"features\": expected 1 to 10 rows of 24, found ";
  contains(refusal(model.model, write_features("long", 11, 24, 0)), expected + "[11, 24]");
  contains(refusal(model.model, write_features("wide", 3, 25, 0)), expected + "[3, 25]");
  contains(refusal(model.model, write_features("nan", 3, 24, NAN)), "expected finite values");
  contains(refusal(model.model, folder_of("anole") / "model.safetensors"), "\"features\"");
  contains(refusal(open_tiny("anole", 1).model, write_features("good", 10, 24, 0)),
           "prompt: expected a text for anole, got the features of a caption");
}

TEST(Captions, FeaturesThatAreNoRealNumbersAreRefused) {
  const TestModel model = open_tiny("lantern", 1);
  const std::vector<std::byte> bytes(3 * 24);
  using enum StorageType;
  for (const StorageType type : {u8, boolean, f8_e4m3}) {
    const TensorToWrite tensor{"features", type, {3, 24}, bytes};
    const fs::path file = scratch("features") / "whole";
    write_safetensors(file, {&tensor, 1});
    contains(refusal(model.model, file), "\"features\": expected floating-point values, found ");
  }
}

/// Captions of one length have the same tokens, and their rows are not shared.
TEST(Captions, EachIsItsOwn) {
  TestModel model = open_tiny("lantern", 1);
  std::vector<std::vector<TokenId>> alone;
  std::vector<Request> requests(2);
  for (std::size_t i = 0; i < 2; ++i) {
    ask_for(model.model,
            caption_prompt(model.model, write_features("own", 7, 24, static_cast<float>(i))), 1,
            requests[i]);
    alone.push_back(TestEngine(model, drafter_of("none", model)).run(requests[i]).tokens);
  }
  EXPECT_NE(alone[0], alone[1]);
  TestEngine engine(model, drafter_of("none", model));
  for (const std::size_t i : {0, 1, 0}) EXPECT_EQ(engine.run(requests[i]).tokens, alone[i]);
}

TEST(Captions, VectorsThatDoNotFitAreRefused) {
  TestModel model = open_tiny("lantern", 1);
  const auto refusal_of = [&](std::vector<float> vectors) -> std::string {
    Request request = pictures("lantern", model.model)[2];
    request.prompt_vectors = std::make_shared<const std::vector<float>>(std::move(vectors));
    TestEngine engine(model, drafter_of("none", model));
    const auto result = engine.engine.submit(request);
    const auto* refused = std::get_if<Refusal>(&result);
    return refused ? refused->message : "taken";
  };
  EXPECT_EQ(refusal_of(std::vector<float>(3 * 128)), "taken");
  EXPECT_EQ(refusal_of(std::vector<float>(2 * 128)),
            "prompt_vectors: expected 384 values, 128 for each token of a picture's prompt, found "
            "256");
  EXPECT_EQ(refusal_of(std::vector<float>(3 * 128, INFINITY)),
            "prompt_vectors: expected finite values, found others");
}

/// The tiny model of a family with pictures of another size.
TestModel open_large(const std::string& name, const Json& changes, int threads) {
  const fs::path folder = scratch(name + "_large");
  fs::copy_file(folder_of(name) / "model.safetensors", folder / "model.safetensors",
                fs::copy_options::overwrite_existing);
  std::ifstream file(test::kPictureGoldens / name / "config.json");
  Json config = Json::parse(file);
  config.update(changes);
  std::ofstream(folder / "config.json") << config;
  CpuOptions options;
  options.threads = threads;
  return TestModel(folder, make_cpu_backend(options));
}

/// Full pages are known by their tokens, and two captions have the same.
TEST(Captions, PagesOfOneAreNotThoseOfAnother) {
  TestModel model = open_large("lantern", {{"grid", 8}}, 1);
  const auto run = [&](TestEngine& engine, float caption) {
    Request request;
    ask_for(model.model, caption_prompt(model.model, write_features("page", 9, 24, caption)), 1,
            request);
    request.sampler.logit_bias = {{5, 1e6F}};  // both draw the same codes
    request.logprobs = 0;
    const SequenceId id = engine.submit(request);
    std::vector<double> found;
    while (!engine.engine.idle()) {
      for (const Progress& progress : engine.engine.step()) {
        EXPECT_EQ(progress.sequence, id);
        for (const TokenLogprobs& one : progress.logprobs) found.push_back(one.log_p);
      }
    }
    return found;
  };
  TestEngine one(model, drafter_of("none", model)), both(model, drafter_of("none", model));
  const auto alone = run(one, 3);
  EXPECT_NE(run(both, 1), alone);
  EXPECT_EQ(run(both, 3), alone);
}

/// Texts of three pages whose guides have two: every number of pages that holds one of them is
/// enough, and changes no code.
TEST(ShortGuides, FewPagesChangeNoCode) {
  for (const std::string kind : {"anole", "lumina"}) {
    TestModel model = open_large(kind, {{"grid", {8, 12}}, {"max_position_embeddings", 256}}, 2);
    const Tokenizer words = chameleon_words();
    std::vector<Request> requests(3);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::string text = "cat";
      for (std::size_t word = 0; word < 30 + 5 * i; ++word) text += word % 3 == i ? " red" : " a";
      ask_for(model.model, text_prompt(model.model, &words, text), 3, requests[i]);
      EXPECT_GT(requests[i].prompt.size(), requests[i].guide_prompt.size() + 30);
      requests[i].seed = i;
      requests[i].sampler.temperature = 1;
    }
    std::vector<std::vector<TokenId>> expected;
    for (const Request& request : requests)
      expected.push_back(TestEngine(model, drafter_of("none", model)).run(request).tokens);
    for (const int pages : {6, 7, 8, 11, 64}) {
      for (const int chunk : {7, 256}) {
        TestOptions options;
        options.policy = "fixed";
        options.chunk = chunk;
        TestEngine engine(model, drafter_of("jacobi+grid", model), options, pages);
        const auto answers = engine.run(requests, 2);
        for (std::size_t i = 0; i < answers.size(); ++i)
          EXPECT_EQ(answers[i].tokens, expected[i]) << kind << ' ' << pages << ' ' << i;
        EXPECT_EQ(engine.cache.free_pages(), pages);
      }
    }
  }
}

TEST(ShortGuides, AreForTextsAlone) {
  const auto refused_guide = [](const std::string& kind, std::size_t guide) -> std::string {
    TestModel model = open_tiny(kind, 1);
    Request request = pictures(kind, model.model)[2];
    request.guide_prompt.resize(guide, model.vocabulary());
    TestEngine engine(model, drafter_of("none", model));
    const auto result = engine.engine.submit(request);
    const auto* refused = std::get_if<Refusal>(&result);
    return refused ? refused->message : "taken";
  };
  EXPECT_EQ(refused_guide("anole", 1), "taken");
  const std::string expected = "guide_prompt: expected 6 tokens, as the prompt has, found ";
  EXPECT_EQ(refused_guide("anole", 0), expected + "0");
  EXPECT_EQ(refused_guide("anole", 7), expected + "7");
  EXPECT_EQ(refused_guide("lantern", 2),
            "guide_prompt: expected 3 tokens, as the prompt has, found 2");
}

std::vector<TokenId> stored(const Model& model, std::vector<TokenId> tokens) {
  for (TokenId& token : tokens) token -= model.config.vocabulary;
  return tokens;
}

TEST(TextPrompts, AreThoseOfTheirFamily) {
  using Ids = std::vector<TokenId>;
  const TestModel anole = open_tiny("anole", 1), lumina = open_tiny("lumina", 1),
                  janus = open_tiny("janus", 1);
  const Tokenizer words = chameleon_words(), chat = janus_words();
  const PicturePrompt plain = text_prompt(anole.model, &words, "red cat");
  EXPECT_EQ(stored(anole.model, plain.own), (Ids{0, 38, 36, 31, 30}));
  EXPECT_EQ(stored(anole.model, plain.guide), (Ids{0, 30}));
  const PicturePrompt sized = text_prompt(lumina.model, &words, "dog");
  const Ids own = stored(lumina.model, sized.own);
  EXPECT_EQ(Ids(own.end() - 5, own.end()), (Ids{37, 31, 30, 34, 35}));
  EXPECT_EQ(stored(lumina.model, sized.guide), (Ids{30, 34, 35}));
  const PicturePrompt asked = text_prompt(janus.model, &chat, "red cat");
  EXPECT_EQ(stored(janus.model, asked.own), (Ids{7, 9, 11, 10, 8, 9, 5}));
  EXPECT_EQ(stored(janus.model, asked.guide), (Ids{7, 6, 6, 6, 6, 6, 5}));
  // What a user writes is no special token.
  const PicturePrompt bold = text_prompt(janus.model, &chat, "<begin_of_image>");
  const Ids ids = stored(janus.model, bold.own);
  EXPECT_EQ(std::ranges::count(ids, 5), 1);
}

TEST(TextPrompts, WithoutWhatTheyNeedAreRefused) {
  const TestModel anole = open_tiny("anole", 1), janus = open_tiny("janus", 1),
                  lantern = open_tiny("lantern", 1);
  const Tokenizer words = chameleon_words();
  contains(said([&] { text_prompt(anole.model, nullptr, "cat"); }), "expected a tokenizer");
  contains(said([&] { text_prompt(janus.model, &words, "cat"); }),
           "expected a token \"<begin_of_image>\", found none");
  contains(said([&] { text_prompt(lantern.model, &words, "cat"); }),
           "prompt: expected the features of a caption for lantern, got words");
  contains(said([&] { class_prompt(anole.model, 3); }),
           "prompt: expected a text for anole, got the number of a class");
  contains(said([&] { text_prompt(anole.model, &words, std::string(70000, 'x')); }),
           "prompt: expected at most 65536 bytes");
}

/// Both of its sides are told by tokens.
TEST(Sizes, WithoutATokenInTheVocabularyAreRefused) {
  for (const Json& grid : {Json({2, 16}), Json({16, 2})}) {
    contains(said([&] {
               open_large("lumina", {{"grid", grid}, {"max_position_embeddings", 256}}, 1);
             }),
             "\"vocab_size\": expected at least 42 tokens, found 40");
  }
}

}  // namespace
}  // namespace talon::picture_kinds_test
