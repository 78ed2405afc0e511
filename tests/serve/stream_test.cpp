#include <gtest/gtest.h>

#include "test_server.h"

namespace talon::test::stream_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

TEST(Stream, PiecesOfAChatJoinToTheWholeAnswer) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
               {"max_tokens", 50},
               {"seed", 3},
               {"n", 2},
               {"logprobs", true},
               {"return_token_ids", true}};
  const Json whole = server().post("/v1/chat/completions", body).json();
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const Reply reply = server().post("/v1/chat/completions", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  const std::vector<Json> events = reply.events();
  std::vector<std::string> texts(2);
  std::vector<Json> tokens(2, Json::array()), logprobs(2, Json::array()), finishes(2);
  for (const Json& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    for (const Json& choice : event["choices"]) {
      const auto i = choice["index"].get<std::size_t>();
      EXPECT_TRUE(finishes[i].is_null()) << "a piece after the end";
      texts[i] += choice["delta"].value("content", "");
      for (const Json& token : choice.value("token_ids", Json::array())) tokens[i].push_back(token);
      if (choice["logprobs"].is_object()) {
        for (const Json& token : choice["logprobs"]["content"]) logprobs[i].push_back(token);
      }
      finishes[i] = choice["finish_reason"];
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& choice = whole["choices"][i];
    EXPECT_EQ(texts[i], choice["message"]["content"]);
    EXPECT_EQ(tokens[i], choice["token_ids"]);
    EXPECT_EQ(logprobs[i], choice["logprobs"]["content"]);
    EXPECT_EQ(finishes[i], choice["finish_reason"]);
  }
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back()["choices"].size(), 0u);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_TRUE(events.front()["usage"].is_null());
}

TEST(Stream, PiecesOfACompletionJoinToTheWholeAnswer) {
  Json body = {{"prompt", "Tom"}, {"max_tokens", 40}, {"temperature", 0}, {"stream", true}};
  std::string text;
  for (const Json& event : server().post("/v1/completions", body).events()) {
    EXPECT_FALSE(event.contains("usage"));
    for (const Json& choice : event["choices"]) text += choice["text"];
  }
  body.erase("stream");
  EXPECT_EQ(text, plain_text(body));
}

/// The description of completions has no null for it, that of chats has.
TEST(Stream, TellsUsageInTheLastPieceAlone) {
  Json body = {{"prompt", "Once"},
               {"max_tokens", 5},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  const std::vector<Json> events = server().post("/v1/completions", body).events();
  ASSERT_GE(events.size(), 2U);
  for (const Json& event : events) EXPECT_EQ(event.contains("usage"), event == events.back());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 5);
}

TEST(Stream, ARequestThatIsRefusedHasAStatusAndNoStream) {
  const Json body = {{"prompt", "Tom"}, {"stream", true}, {"talon", {{"drafter", "nothing"}}}};
  const Reply reply = server().post("/v1/completions", body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "talon.drafter");
}

TEST(Stream, AClientOfHttp10GetsItToTheEndOfTheConnection) {
  const std::string body = R"({"prompt": "Tom", "max_tokens": 5, "stream": true})";
  Client client(server().port());
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace talon::test::stream_test
