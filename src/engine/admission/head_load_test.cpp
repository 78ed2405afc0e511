#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/cpu/cpu.h"
#include "draft/registry.h"
#include "engine/engine.h"
#include "engine/test_model.h"

namespace talon::head_load_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

Request request(TokenId first, int max_new) {
  Request result;
  result.prompt.assign(100, 265);
  result.prompt[0] = first;
  result.max_new = max_new;
  result.sampler.temperature = 1;
  return result;
}

/// Whether a sequence was drafted for after a round in which it was not.
bool drafts_again(const std::vector<int>& drafted) {
  const auto without = std::find(drafted.begin(), drafted.end(), 0);
  return std::any_of(without, drafted.end(), [](int nodes) { return nodes > 0; });
}

TEST(HeadsUnderLoad, ASequenceWithoutRoomInTheHeadsCacheDraftsAgainWhenOthersHaveEnded) {
  CpuOptions cpu;
  cpu.threads = 1;
  cpu.pin = false;
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_cpu_backend(cpu));
  std::map<SequenceId, std::vector<int>> drafted;
  test::TestOptions options;
  options.policy = "fixed";
  options.observer = [&](const RoundReport& report) {
    drafted[report.sequence].push_back(report.tree->draft_nodes());
  };
  std::vector<Request> requests;
  for (TokenId i = 0; i < 12; ++i) requests.push_back(request(300 + i, i < 6 ? 60 : 200));
  const std::string head = TALON_TEST_DATA "/golden/stories260k/eagle1_head";
  auto drafter =
      make_drafter("eagle2:head=" + head, {.target = &model.model, .cache_positions = 1});
  TestEngine test(model, std::move(drafter), options);
  const std::vector<Answer> answers = test.run(requests);

  TestEngine plain(model, make_drafter("none", {}));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(answers[i].tokens, plain.run(requests[i]).tokens);
  }
  EXPECT_GT(test.engine.statistics().lost_draft_rows, 100);  // at least a prompt
  EXPECT_TRUE(std::any_of(drafted.begin(), drafted.end(),
                          [](const auto& rounds) { return drafts_again(rounds.second); }));
}

}  // namespace
}  // namespace talon::head_load_test
