#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/wrap/forwarding.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "io/test_pictures.h"

// Pictures of which the first tokens alone are guided (Request::guidance_tokens).
namespace talon::guide_end_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;

namespace fs = std::filesystem;

constexpr int kCells = 15, kPrompt = 6;

/// Prompts of six words, pictures of so many cells.
fs::path words_folder(int rows, int columns) {
  const std::string program = fmt::format("talon_guide_end_{}", rows);
  const fs::path folder = test::unpack_picture(program, "words/model.safetensors").parent_path();
  std::ifstream usual(test::kPictureGoldens / "words/config.json");
  Json config = Json::parse(usual);
  config["grid"] = {rows, columns};
  std::ofstream(folder / "config.json") << config;
  return folder;
}

std::unique_ptr<Backend> cpu() {
  CpuOptions options;
  options.threads = 1;
  return make_cpu_backend(options);
}

Request picture(const TestModel& model, std::uint64_t seed, int guided) {
  Request request;
  request.prompt = {1, 8, 8, 8, 8, 5 + static_cast<TokenId>(seed % 3)};
  request.guide_prompt.assign(kPrompt, 8);
  for (std::vector<TokenId>* prompt : {&request.prompt, &request.guide_prompt})
    for (TokenId& token : *prompt) token += model.vocabulary();
  request.guidance = 2.5F;
  request.guidance_tokens = guided;
  request.max_new = model.model.config.image->cells();
  request.seed = seed;
  request.sampler.temperature = 1;
  return request;
}

std::unique_ptr<Drafter> drafter_of(const std::string& name, const TestModel& model) {
  return make_drafter(name, {.target = &model.model});
}

std::vector<TokenId> plain(TestModel& model, const Request& request) {
  return TestEngine(model, drafter_of("none", model)).run(request).tokens;
}

/// Notes how many rows each forward has.
class CountingBackend : public ForwardingBackend {
 public:
  CountingBackend() : ForwardingBackend(cpu()) {}
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    rows.push_back(tokens.count);
    ForwardingBackend::embed(table, tokens, out);
  }
  std::vector<int> rows;
};

/// A model of pictures of 15 cells, and the rows of its forwards.
struct CountedModel {
  CountedModel() : CountedModel(std::make_unique<CountingBackend>()) {}
  explicit CountedModel(std::unique_ptr<CountingBackend> backend)
      : rows(backend->rows), model(words_folder(3, 5), std::move(backend)) {}
  std::vector<int>& rows;
  TestModel model;
};

TEST(GuideEnd, AGuideIsRunAsLongAsTokensAreGuided) {
  CountedModel counted;
  for (const int guided : {0, 1, 4, kCells - 1, kCells}) {
    TestEngine engine(counted.model, drafter_of("none", counted.model));
    counted.rows.clear();
    engine.run(picture(counted.model, 2, guided));
    std::vector<int> expected = {2 * kPrompt};
    for (int code = 1; code < kCells; ++code)
      expected.push_back(guided == 0 || code < guided ? 2 : 1);
    EXPECT_EQ(counted.rows, expected) << guided;
  }
}

/// A tree that begins before the last guided token has a row of the guide beside each of its own.
TEST(GuideEnd, TheRowsOfTreesFollowTheGuide) {
  constexpr int kGuided = 5;
  CountedModel counted;
  const Request request = picture(counted.model, 2, kGuided);
  const auto expected = plain(counted.model, request);
  std::vector<int> nodes, answered;
  TestOptions options;
  options.policy = "fixed";
  options.observer = [&](const RoundReport& report) {
    nodes.push_back(report.tree->size());
    answered.push_back(report.position + 1 - kPrompt);
  };
  TestEngine engine(counted.model, drafter_of("jacobi:window=4", counted.model), options);
  counted.rows.clear();
  EXPECT_EQ(engine.run(request).tokens, expected);
  ASSERT_EQ(counted.rows.size(), nodes.size() + 1);
  for (std::size_t round = 0; round < nodes.size(); ++round) {
    EXPECT_EQ(counted.rows[round + 1], nodes[round] * (answered[round] < kGuided ? 2 : 1)) << round;
  }
  EXPECT_GT(std::ranges::max(nodes), 1);
  EXPECT_GE(answered.back(), kGuided);
}

/// Of three pages a guided picture takes two, and one behind its last guided code.
TEST(GuideEnd, ItsPageServesAnother) {
  TestModel model(words_folder(3, 5), cpu());
  for (const int guided : {0, 4}) {
    TestEngine engine(model, drafter_of("none", model), {}, 3);
    for (const std::uint64_t seed : {2U, 3U}) engine.submit(picture(model, seed, guided));
    int most = 0;
    while (!engine.engine.idle()) {
      engine.engine.step();
      most = std::max(most, engine.engine.load().running);
    }
    EXPECT_EQ(most, guided == 0 ? 1 : 2);
    EXPECT_EQ(engine.cache.free_pages(), 3);
  }
}

/// Texts of 150 tokens have three pages, and guides up to three. With eight pages the second of two
/// that run is set back at its 128th row: before its guide has ended, or behind.
TEST(GuideEnd, PicturesThatAreSetBackBeforeItOrBehindItHaveTheSameCodes) {
  TestModel model(words_folder(12, 12), cpu());
  for (const std::vector<int>& guided : {std::vector{100, 0, 20}, std::vector{0, 70, 1}}) {
    std::vector<Request> requests;
    std::vector<std::vector<TokenId>> expected;
    for (const int tokens : guided) {
      requests.push_back(picture(model, requests.size() + 1, tokens));
      expected.push_back(plain(model, requests.back()));
    }
    for (const char* drafter : {"none", "jacobi"}) {
      for (const int chunk : {5, 256}) {
        TestOptions options;
        options.chunk = chunk;
        TestEngine engine(model, drafter_of(drafter, model), options, 8);
        const std::vector<Answer> answers = engine.run(requests, 3);
        for (std::size_t i = 0; i < answers.size(); ++i)
          EXPECT_EQ(answers[i].tokens, expected[i]) << drafter << ' ' << chunk << ' ' << i;
        EXPECT_EQ(engine.cache.free_pages(), 8);
        if (drafter == std::string("none")) {
          EXPECT_GT(answers[1].statistics.preemptions, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace talon::guide_end_test
