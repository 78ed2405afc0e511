#include <gtest/gtest.h>

#include <algorithm>

#include "bench/load/load_check.h"
#include "core/stop.h"
#include "runtime/cache_budget.h"
#include "test_server.h"

namespace talon::test::load_test {
namespace {

/// `talon bench load --check-equal` in small: a server under load against plain decoding here.
TEST(BenchLoad, FindsEveryTextOfATalonEqualToPlainDecoding) {
  TestServer talon;
  const LoadedModel loaded = open_model(tiny_model());
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const auto cache = open_cache(loaded.model);
  Answerer answerer(loaded.model, *cache, &tokenizer, {.drafter = "none"});
  const std::vector<Question> questions = {{1, "", {"Once upon a time"}}, {2, "", {"Tom and Tom"}}};
  const LoadPrompts prompts(tokenizer, nullptr, questions, {.max_new = 60});
  LoadServer server(parse_load_url(fmt::format("talon=http://127.0.0.1:{}/v1", talon.port())),
                    {{}, {"model.bin", tokenizer, 1, 512}, 1});
  LoadSettings settings;
  settings.seconds = 4;
  settings.sampler.temperature = 0.7;
  settings.long_tokens = 100;
  std::vector<LoadSlice> slices;
  for (const LoadLevel level : {LoadLevel{false, 4}, LoadLevel{true, 20}}) {
    const int first = static_cast<int>(1000 * slices.size());
    slices.push_back({.level = level, .seconds = settings.seconds});
    slices.back().answers = run_slice(server, prompts, first, level, settings, StopFlag());
  }
  const std::vector<std::string> names = {server.name()};
  auto results = summarize(slices, names, [&](const std::string& text) {
    return static_cast<int>(tokenizer.encode(text).size());
  });
  const bool claims[] = {server.claims_same_texts()};
  const PlainText plain = [&](const LoadPrompt& prompt) {
    Request request;
    request.prompt = prompt.tokens;
    request.max_new = prompt.max_new;
    request.sampler = settings.sampler;
    request.seed = prompt.seed;
    request.end_tokens = loaded.end_tokens;
    return answerer.decode(request).text;
  };
  const auto said = check_texts(slices, claims, prompts, plain, results, [](auto, auto) {});
  EXPECT_EQ(said, std::vector<std::string>());
  ASSERT_EQ(results.size(), 2u);
  for (const LoadResult& result : results) {
    EXPECT_GT(result.compared, 3) << name_of(result.level);
    EXPECT_EQ(result.errors, 0);
    EXPECT_GT(result.tok_s.median, 0);
    EXPECT_GT(result.long_ms.worst, 0);
  }
  // A text that is not the one of plain decoding is found.
  const auto whole =
      std::find_if(slices[0].answers.begin(), slices[0].answers.end(),
                   [](const LoadAnswer& answer) { return answer.is_whole && !answer.is_long; });
  ASSERT_NE(whole, slices[0].answers.end());
  whole->text += "x";
  EXPECT_EQ(check_texts(slices, claims, prompts, plain, results, [](auto, auto) {}).size(), 1u);
}

}  // namespace
}  // namespace talon::test::load_test
