#include <gtest/gtest.h>

#include "../faults/cli_process.h"
#include "io/json.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"

// A program that stands on src/runtime is a peer of the command line.
namespace talon::test::command_line_test {
namespace {

TEST(LibraryUser, GetsTheTokensOfTheCommandLine) {
  const Outcome outcome =
      run_talon({"run", "-m", small_model(), "--weights", "int8", "-p", "Once upon a time", "-n",
                 "200", "--temperature", "1", "--seed", "5", "-d", "none", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  const std::vector<TokenId> expected = Json::parse(outcome.output)["tokens"];

  const LoadedModel loaded = open_model({.model = small_model(), .weights = WeightLayout::int8});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "auto";
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);
  Request request;
  request.prompt =
      loaded.tokenizer->encode("Once upon a time", {.parse_special = true, .add_start = true});
  request.max_new = 200;
  request.sampler.temperature = 1;
  request.seed = 5;
  request.end_tokens = loaded.end_tokens;
  EXPECT_EQ(answerer.decode(request).tokens, expected);
}

}  // namespace
}  // namespace talon::test::command_line_test
