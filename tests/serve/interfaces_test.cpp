#include <gtest/gtest.h>

#include "test_server.h"

// The interfaces beside chat completions: they say the same text.
namespace talon::test::interfaces_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

/// What a chat of one message of the user says.
std::string said(int max_tokens) {
  const Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                     {"max_tokens", max_tokens},
                     {"temperature", 0}};
  return server().post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"];
}

/// Events by their names, in order.
std::vector<std::pair<std::string, Json>> named_events(const std::string& body) {
  std::vector<std::pair<std::string, Json>> events;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t line = body.find('\n', at), end = body.find("\n\n", at);
    const std::string name = body.substr(at, line - at),
                      data = body.substr(line + 1, end - line - 1);
    events.emplace_back(name.substr(7), Json::parse(data.substr(6)));
    EXPECT_EQ(events.back().first, events.back().second["type"]);
    at = end + 2;
  }
  return events;
}

const Json kResponse = {{"input", "Hi"}, {"max_output_tokens", 20}, {"temperature", 0}};
const Json kMessage = {
    {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 20}, {"temperature", 0}};

TEST(Responses, HoldTheTextOfTheChat) {
  const Json answer = server().post("/v1/responses", kResponse).json();
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], said(20));
  EXPECT_EQ(answer["usage"]["output_tokens"], 20);
  // OpenAI's description requires these.
  EXPECT_EQ(answer["output"][0]["content"][0]["logprobs"], Json::array());
  const Json& input = answer["usage"]["input_tokens_details"];
  EXPECT_EQ(input["cached_tokens"].get<int>() + input["cache_write_tokens"].get<int>(),
            answer["usage"]["input_tokens"]);
  Json items = kResponse;
  items["input"] = {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "Hi"}}}}}};
  EXPECT_EQ(server().post("/v1/responses", items).json()["output"][0]["content"],
            answer["output"][0]["content"]);
}

TEST(Responses, StreamAsNumberedEventsWhosePiecesJoin) {
  Json body = kResponse;
  body["stream"] = true;
  const auto events = named_events(server().post("/v1/responses", body).body);
  std::string text;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].second["sequence_number"], i);
    if (events[i].first == "response.output_text.delta") text += events[i].second["delta"];
  }
  EXPECT_EQ(text, said(20));
  ASSERT_GE(events.size(), 8u);
  EXPECT_EQ(events[0].first, "response.created");
  EXPECT_FALSE(events[0].second["response"].contains("usage"));  // OpenAI's may not be null
  EXPECT_EQ(events[2].first, "response.output_item.added");
  EXPECT_EQ(events[3].first, "response.content_part.added");
  EXPECT_EQ(events[events.size() - 4].first, "response.output_text.done");
  EXPECT_EQ(events[events.size() - 4].second["text"], text);
  EXPECT_EQ(events.back().first, "response.incomplete");
  EXPECT_EQ(events.back().second["response"]["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(events.back().second["response"]["usage"]["output_tokens"], 20);
}

TEST(Responses, RefuseWhatTheyDoNotKeep) {
  Json body = kResponse;
  body["previous_response_id"] = "resp_1";
  EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], "previous_response_id");
  body = kResponse;
  body["input"] = {{{"type", "computer_call"}}};
  EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], "input[0].type");
  body["input"] = 5;
  EXPECT_EQ(server().post("/v1/responses", body).status, 400);
  body = kResponse;
  body["max_output_tokens"] = 0;
  EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], "max_output_tokens");
  body = kResponse;
  body["top_logprobs"] = 2;
  EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], "top_logprobs");
  body = kResponse;
  body["include"] = {"reasoning.encrypted_content", "message.output_text.logprobs"};
  EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], "include[1]");
  for (const char* name : {"text", "metadata", "include", "truncation", "parallel_tool_calls"}) {
    body = kResponse;
    body[name] = 5;
    EXPECT_EQ(server().post("/v1/responses", body).json()["error"]["param"], name);
  }
}

TEST(Responses, RepeatWhatTheyWereAsked) {
  const Json answer = server().post("/v1/responses", kResponse).json();
  EXPECT_EQ(answer["instructions"], nullptr);
  EXPECT_EQ(answer["tool_choice"], "auto");
  EXPECT_EQ(answer["text"]["format"]["type"], "text");
  const Json schema = {{"type", "json_schema"}, {"name", "a"}, {"schema", {{"const", 1}}}};
  const Json tool = {{"type", "function"}, {"name", "time"}};
  Json body = kResponse;
  body.update({{"instructions", "Be kind."},
               {"metadata", {{"a", "b"}}},
               {"parallel_tool_calls", false},
               {"reasoning", {{"effort", "low"}}},
               {"text", {{"format", schema}}},
               {"tool_choice", "none"},
               {"truncation", "auto"},
               {"tools", {tool}}});
  const Json told = server().post("/v1/responses", body).json();
  for (const char* name :
       {"instructions", "metadata", "parallel_tool_calls", "text", "tool_choice", "truncation"}) {
    EXPECT_EQ(told[name], body[name]) << name;
  }
  EXPECT_EQ(told["reasoning"]["effort"], "low");
  EXPECT_EQ(told["tools"][0]["name"], "time");
  EXPECT_EQ(told["tools"][0]["parameters"], nullptr);
  body["stream"] = true;
  const auto events = named_events(server().post("/v1/responses", body).body);
  EXPECT_EQ(events[0].second["response"]["tools"], told["tools"]);
  body["reasoning"]["effort"] = "AAA";
  const Reply refused = server().post("/v1/responses", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "reasoning.effort");
}

TEST(Responses, RefuseAnInputOfThoughtsAlone) {
  Json body = {{"input", {{{"type", "reasoning"}}}}};
  const auto refusal = [&] { return server().post("/v1/responses", body).json()["error"]; };
  const std::string expected =
      "input: expected an item beside those of reasoning, found an array of 1 value";
  EXPECT_EQ(refusal()["message"], expected);
  body["continue_final_message"] = true;
  EXPECT_EQ(refusal()["message"], expected);
  body["instructions"] = "Be kind.";
  EXPECT_EQ(refusal()["param"], "input");
}

TEST(Messages, HoldTheTextOfTheChat) {
  const Json answer = server().post("/v1/messages", kMessage).json();
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["content"][0]["text"], said(20));
  EXPECT_EQ(answer["stop_reason"], "max_tokens");
  EXPECT_EQ(answer["usage"]["output_tokens"], 20);
}

TEST(Messages, TellWhichStopTextEndedThem) {
  const std::string stop = said(20).substr(8, 3);
  Json body = kMessage;
  body["stop_sequences"] = {"no such text", stop + "and", stop};
  const Json answer = server().post("/v1/messages", body).json();
  EXPECT_EQ(answer["stop_reason"], "stop_sequence");
  EXPECT_EQ(answer["stop_sequence"], stop);
}

TEST(Messages, StreamWhatWholeOnesSayOfThemselves) {
  Json body = kMessage;
  body["messages"][0]["content"] = "Tell me of a cat that went to the sea and saw a big red ship.";
  body["seed"] = 7;
  body["talon"] = {{"metrics", true}};
  server().post("/v1/messages", body);  // now the cache has the prompt
  const Json whole = server().post("/v1/messages", body).json();
  body["stream"] = true;
  const auto events = named_events(server().post("/v1/messages", body).body);
  const Json& last = events[events.size() - 2].second;
  EXPECT_EQ(last["talon"], whole["talon"]);
  EXPECT_EQ(last["talon"]["seed"], 7);
  for (const char* name : {"timings", "metrics"}) EXPECT_TRUE(last[name].is_object()) << name;
  // Tokens of the prompt count once, at the beginning and at the end.
  EXPECT_GT(whole["usage"]["cache_read_input_tokens"], 0);
  EXPECT_EQ(last["usage"], whole["usage"]);
  Json begun = events[0].second["message"]["usage"];
  EXPECT_EQ(begun["output_tokens"], 0);
  begun["output_tokens"] = whole["usage"]["output_tokens"];
  EXPECT_EQ(begun, whole["usage"]);
}

TEST(Messages, StreamAsBlocksWhosePiecesJoin) {
  Json body = kMessage;
  body["stream"] = true;
  const auto events = named_events(server().post("/v1/messages", body).body);
  std::string text;
  for (const auto& [name, data] : events) {
    if (name == "content_block_delta") text += data["delta"]["text"];
  }
  EXPECT_EQ(text, said(20));
  EXPECT_EQ(events[0].first, "message_start");
  EXPECT_EQ(events[1].first, "content_block_start");
  EXPECT_EQ(events[events.size() - 2].second["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(events.back().first, "message_stop");
}

TEST(Messages, AreCountedAsTheyAreFed) {
  Json body = {{"system", "Be kind."}, {"messages", kMessage["messages"]}};
  const Json counted = server().post("/v1/messages/count_tokens", body).json();
  const Json tokens =
      server().post("/tokenize", {{"content", "system: Be kind.\nuser: Hi\nassistant:"}}).json();
  EXPECT_EQ(counted["input_tokens"], tokens["count"]);
}

TEST(Messages, AreCountedWhereTheyAreTooManyToBeAnswered) {
  TestServer::Options options;
  options.limits.prompt_tokens = 5;
  TestServer small(options);
  const Json counted = small.post("/v1/messages/count_tokens", kMessage).json();
  EXPECT_GT(counted["input_tokens"], 5) << counted;
  EXPECT_EQ(small.post("/tokenize", kMessage).json()["count"], counted["input_tokens"]);
  EXPECT_EQ(small.post("/apply-template", kMessage).json()["prompt"], "user: Hi\nassistant:");
  const Reply reply = small.post("/v1/messages", kMessage);
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("messages: expected at most 5 tokens"), std::string::npos);
}

Json turn(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

TEST(Messages, GoOnFromALastOneOfTheAssistant) {
  Json body = kMessage;
  body["messages"].push_back(turn("assistant", "Once upon"));
  const Json completion = {
      {"prompt", "user: Hi\nassistant: Once upon"}, {"max_tokens", 20}, {"temperature", 0}};
  const Json wanted = server().post("/v1/completions", completion).json()["choices"][0]["text"];
  const Json answer = server().post("/v1/messages", body).json();
  EXPECT_EQ(answer["content"][0]["text"], wanted) << answer;
  body["messages"][1]["content"] = {
      {{"type", "tool_use"}, {"id", "a"}, {"name", "time"}, {"input", Json::object()}}};
  EXPECT_NE(server().post("/v1/messages", body).body.find("calls in it"), std::string::npos);
}

TEST(Chats, GoOnFromTheLastMessageWhereTheyAreAskedTo) {
  Json body = {{"messages", {turn("user", "Hi"), turn("assistant", "Once upon")}},
               {"continue_final_message", true}};
  const auto rendered = [&] { return server().post("/apply-template", body); };
  EXPECT_EQ(rendered().json()["prompt"], "user: Hi\nassistant: Once upon");
  body["add_generation_prompt"] = true;
  EXPECT_EQ(rendered().json()["error"]["param"], "add_generation_prompt");
  body["add_generation_prompt"] = false;
  EXPECT_EQ(rendered().status, 200);
  body["messages"].push_back(turn("user", "And?"));
  EXPECT_NE(rendered().body.find("found one of the user"), std::string::npos);
}

TEST(Messages, HaveErrorsOfTheirOwnShape) {
  Json body = kMessage;
  body.erase("max_tokens");
  const Reply reply = server().post("/v1/messages", body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["type"], "error");
  EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error");
  body = kMessage;
  body["messages"][0]["role"] = "system";
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "messages[0].role: expected one of user, assistant, found \"system\"");
  body = kMessage;
  body["stop_sequences"] = {1};
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "stop_sequences[0]: expected a text that is not empty, found 1");
  body = kMessage;
  body["thinking"] = 5;
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "thinking: expected an object, found 5");
  body = kMessage;
  body["messages"][0]["content"] = {{{"type", "image"}}};
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "messages[0].content[0].type: expected text, found \"image\"");
  body = kMessage;
  body["tools"] = {{{"name", "time"}, {"input_schema", Json::object()}}};
  body["tool_choice"] = {{"type", "bogus"}};
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "tool_choice.type: expected auto, any, tool or none, found \"bogus\"");
  body = kMessage;
  body["messages"].push_back(
      {{"role", "assistant"}, {"content", {{{"type", "tool_use"}, {"name", "a"}, {"input", 5}}}}});
  EXPECT_EQ(server().post("/v1/messages", body).json()["error"]["message"],
            "messages[1].content[0].input: expected an object, found 5");
}

}  // namespace
}  // namespace talon::test::interfaces_test
