#include <gtest/gtest.h>

#include <optional>

#include "serve/api/round_trace.h"
#include "test_server.h"

namespace talon::test::trace_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

const Json kQuestion = {{"messages", {{{"role", "user"}, {"content", "Tom and Tom and Tom and"}}}},
                        {"max_tokens", 60},
                        {"temperature", 0},
                        {"return_token_ids", true}};

Json traced(Json body) {
  body["talon"] = {{"trace", true}, {"drafter", "ngram"}, {"policy", "fixed"}};
  return body;
}

/// What every round of an answer must say.
void check_rounds(const Json& rounds, const Json& tokens) {
  Json joined = Json::array();
  int trees = 0;
  for (const Json& round : rounds) {
    const std::size_t count = round["tokens"].size();
    EXPECT_EQ(round["texts"].size(), count);
    EXPECT_EQ(round["bytes"].size(), count);
    for (const Json& token : round["tokens"]) joined.push_back(token);
    const auto accepted = round["accepted"].get<std::size_t>();
    EXPECT_LE(accepted, count);
    if (!round.contains("tree")) continue;
    ++trees;
    const Json& tree = round["tree"];
    EXPECT_EQ(tree["parents"].size(), tree["tokens"].size());
    EXPECT_EQ(tree["p"].size(), tree["tokens"].size());
    ASSERT_GE(tree["path"].size(), accepted);
    for (std::size_t i = 0; i < accepted; ++i) {  // the root is the token before
      if (i + 1 >= tree["path"].size()) break;
      EXPECT_EQ(tree["tokens"][tree["path"][i + 1].get<std::size_t>()], round["tokens"][i]);
    }
  }
  EXPECT_EQ(joined, tokens);
  EXPECT_GT(trees, 0);
}

TEST(Trace, TellsOfEveryRoundWhichTokensWereDraftedAndTheTree) {
  const Json whole = server().post("/v1/chat/completions", traced(kQuestion)).json();
  const Json& choice = whole["choices"][0];
  check_rounds(choice["talon"]["rounds"], choice["token_ids"]);
  int accepted = 0;
  for (const Json& round : choice["talon"]["rounds"]) accepted += round["accepted"].get<int>();
  EXPECT_EQ(accepted, whole["timings"]["draft_n_accepted"]);
  EXPECT_GT(accepted, 0);
}

TEST(Trace, IsStreamedAsTheRoundsCome) {
  Json body = traced(kQuestion);
  body["stream"] = true;
  Json rounds = Json::array(), tokens = Json::array();
  for (const Json& event : server().post("/v1/chat/completions", body).events()) {
    for (const Json& choice : event["choices"]) {
      for (const Json& token : choice.value("token_ids", Json::array())) tokens.push_back(token);
      if (!choice.contains("talon")) continue;
      for (const Json& round : choice["talon"]["rounds"]) rounds.push_back(round);
    }
  }
  check_rounds(rounds, tokens);
}

TEST(Trace, OfACompletionIsInItsChoices) {
  const Json body = traced({{"prompt", "Tom and Tom and Tom and"},
                            {"max_tokens", 60},
                            {"temperature", 0},
                            {"return_token_ids", true}});
  const Json choice = server().post("/v1/completions", body).json()["choices"][0];
  check_rounds(choice["talon"]["rounds"], choice["token_ids"]);
}

TEST(Trace, HasTreesAsLongAsThereIsRoom) {
  std::vector<RoundTrace> rounds(4);
  const std::size_t nodes[] = {3, 0, 5, 1};
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    rounds[i].tokens = {7};
    rounds[i].tree.resize(nodes[i]);
    rounds[i].path = {0};
  }
  std::size_t room = 8;
  std::vector<RoundTrace> kept = rounds;
  keep_trees(kept, room);
  EXPECT_EQ(room, 0u);
  EXPECT_EQ(kept[2].tree.size(), 5u);
  EXPECT_TRUE(kept[3].tree.empty());
  EXPECT_TRUE(kept[3].path.empty());
  EXPECT_EQ(kept[3].tokens, rounds[3].tokens);

  room = 7;
  kept = rounds;
  keep_trees(kept, room);
  EXPECT_EQ(kept[0].tree.size(), 3u);
  EXPECT_TRUE(kept[2].tree.empty());
  EXPECT_TRUE(kept[3].tree.empty()) << "a smaller one after it";
  EXPECT_EQ(room, 0u);
}

TEST(Trace, ChangesNoTextAndIsOffUnlessAskedFor) {
  const Json plain = server().post("/v1/chat/completions", kQuestion).json();
  const Json with = server().post("/v1/chat/completions", traced(kQuestion)).json();
  EXPECT_EQ(plain["choices"][0]["message"], with["choices"][0]["message"]);
  EXPECT_FALSE(plain["choices"][0].contains("talon"));
  Json wrong = kQuestion;
  wrong["talon"] = {{"trace", "yes"}};
  const Reply refused = server().post("/v1/chat/completions", wrong);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "talon.trace");
}

TEST(Load, TellsOfAnswersThatAreUnderWayAndOfTheRowsOfAStep) {
  TestServer busy;
  std::optional<Client> client;
  Json load;
  // On a busy machine an answer may end before it is seen.
  for (int tries = 0; tries < 50; ++tries) {
    client.emplace(busy.port());
    client->send(post_text("/v1/completions",
                           R"({"prompt": "Tom and Tom", "max_tokens": 400, "stream": true,
                               "ignore_eos": true})"));
    ASSERT_TRUE(client->read_until("data: "));
    load = busy.get("/v1/load").json()["models"][0];
    if (!load["answers"].empty()) break;
  }
  ASSERT_EQ(load["answers"].size(), 1u);
  EXPECT_GT(load["answers"][0]["prompt_tokens"], 2);
  EXPECT_GT(load["answers"][0]["answer_tokens"], 0);
  EXPECT_GE(load["answers"][0]["seconds"], 0);
  const Json& step = load["last_step"];
  EXPECT_EQ(step["text_rows"].get<int>() + (step["prompt_rows"] > 0 ? 1 : 0), 1);
  EXPECT_GE(step["most_rows"], 512);
  client->close();
  ASSERT_TRUE(busy.becomes_idle());
  const Json after = busy.get("/v1/load").json()["models"][0];
  EXPECT_EQ(after["answers"].size(), 0u);
  EXPECT_GE(after["answer_tokens"], load["answer_tokens"]);
}

}  // namespace
}  // namespace talon::test::trace_test
