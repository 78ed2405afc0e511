#include <cstddef>
#include <utility>

#include "c/test_model.h"

namespace talon::expected_test {
namespace {

TEST(CExpected, AnswersSaveChecksAndChangeNothing) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "suffix@policy=fixed");
  const auto prompt = tokens_of(model, "Once upon a time");
  talon_request request = request_for(prompt, 60);
  request.temperature = 0.8;
  const auto ask = [&] {
    std::pair<std::vector<std::int32_t>, int> answer;
    const auto hear = [](void* user, const talon_news* news) {
      auto& [tokens, rounds] = *static_cast<decltype(answer)*>(user);
      tokens.insert(tokens.end(), news->tokens, news->tokens + news->token_count);
      rounds = news->statistics->rounds;
      return 0;
    };
    EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK) << talon_last_error();
    EXPECT_EQ(talon_engine_run(engine.get(), hear, &answer, nullptr), TALON_OK);
    return answer;
  };
  const auto [tokens, rounds] = ask();
  request.expected = tokens.data();
  request.expected_count = tokens.size();
  const auto [same, fewer] = ask();
  EXPECT_EQ(same, tokens);
  EXPECT_LT(3 * fewer, rounds);
  // A program that was made before the field was.
  request.size = offsetof(talon_request, expected);
  EXPECT_EQ(ask(), std::make_pair(tokens, rounds));
}

}  // namespace
}  // namespace talon::expected_test
