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

Json turn(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

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

/// Clients offer tools of other kinds beside functions.
TEST(Responses, LeaveOutToolsThatAreNoFunctions) {
  const Json web = {{"type", "web_search"}},
             patch = {{"type", "custom"}, {"name", "apply_patch"}, {"format", {{"type", "text"}}}},
             shell = {{"type", "function"}, {"name", "shell"}};
  Json body = kResponse;
  const Json plain = server().post("/v1/responses", body).json();
  body["tools"] = {web};
  const Json alone = server().post("/v1/responses", body).json();
  EXPECT_EQ(alone["output"][0]["content"], plain["output"][0]["content"]) << alone;
  EXPECT_EQ(alone["tools"], Json::array());
  const auto refused = [&] {
    return server().post("/v1/responses", body).json()["error"]["param"];
  };
  body["tool_choice"] = "required";
  EXPECT_EQ(refused(), "tool_choice");
  body["tool_choice"] = web;
  EXPECT_EQ(refused(), "tool_choice");

  body = {{"input", "Hi"},
          {"temperature", 0},
          {"parallel_tool_calls", false},
          {"tools", {web, shell, patch}},
          {"tool_choice", {{"type", "function"}, {"name", "shell"}}},
          {"max_output_tokens", 200}};
  const Json called = server().post("/v1/responses", body).json();
  EXPECT_EQ(called["output"][0]["name"], "shell") << called;
  ASSERT_EQ(called["tools"].size(), 1U) << called;
  EXPECT_EQ(called["tools"][0]["name"], "shell");
  body["tool_choice"] = web;
  EXPECT_EQ(refused(), "tool_choice.type");
}

TEST(Responses, JoinInstructionsAndAFirstMessageOfTheDeveloper) {
  TestServer::Options options;
  options.chat_template =
      "{% for message in messages %}{% if loop.first or message.role != 'system' %}"
      "{{ message.role }}: {{ message.content }}\n{% endif %}{% endfor %}assistant:";
  TestServer first(options);
  const auto tokens = [&](const Json& input) -> int {
    const Json body = {{"instructions", "Be kind."}, {"input", input}, {"max_output_tokens", 1}};
    return first.post("/v1/responses", body).json()["usage"]["input_tokens"];
  };
  const Json user = turn("user", "Hi"), developer = turn("developer", "Be brief.");
  const Json whole = {{"prompt", "system: Be kind.\n\nBe brief.\nuser: Hi\nassistant:"}};
  EXPECT_EQ(tokens({developer, user}), first.post("/tokenize", whole).json()["count"]);
  EXPECT_LT(tokens(Json::array({user})), tokens({developer, user}));
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

/// As coding agents offer them: tools that Anthropic's server has.
TEST(Messages, LeaveOutToolsThatAreNoFunctions) {
  const Json web = {{"type", "web_search_20250305"}, {"name", "web_search"}, {"max_uses", 5}},
             shell = {{"type", "custom"},
                      {"name", "shell"},
                      {"input_schema",
                       {{"properties", {{"a", {{"const", 1}}}}}, {"additionalProperties", false}}}};
  Json body = kMessage;
  const Json plain = server().post("/v1/messages", body).json();
  body["tools"] = {web};
  const Json alone = server().post("/v1/messages", body).json();
  EXPECT_EQ(alone["content"], plain["content"]) << alone;
  EXPECT_EQ(alone["usage"]["output_tokens"], plain["usage"]["output_tokens"]) << alone;
  const auto refused = [&] {
    const Reply reply = server().post("/v1/messages", body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    const std::string message = reply.json()["error"]["message"];
    return message.substr(0, message.find(':'));
  };
  const Json named = {{"type", "tool"}, {"name", "web_search"}};
  body["tool_choice"] = {{"type", "any"}};
  EXPECT_EQ(refused(), "tool_choice");
  body["tool_choice"] = named;
  EXPECT_EQ(refused(), "tool_choice");
  body["tools"] = {web, shell};
  EXPECT_EQ(refused(), "tool_choice.name");
  body["tool_choice"] = {{"type", "tool"}, {"name", "shell"}};
  body["max_tokens"] = 200;
  const Json called = server().post("/v1/messages", body).json();
  EXPECT_EQ(called["content"][0]["name"], "shell") << called;
}

TEST(Messages, AreCountedAsTheyAreFed) {
  Json body = {{"system", "Be kind."}, {"messages", kMessage["messages"]}};
  const Json counted = server().post("/v1/messages/count_tokens", body).json();
  const Json tokens =
      server().post("/tokenize", {{"prompt", "system: Be kind.\nuser: Hi\nassistant:"}}).json();
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

/// How many tokens the prompt of /v1/messages has.
int tokens_fed(const TestServer& of, const Json& body) {
  const Reply reply = of.post("/v1/messages/count_tokens", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json().value("input_tokens", 0);
}
int tokens_of(const std::string& text) {
  return server().post("/tokenize", {{"prompt", text}}).json()["count"];
}

/// Clients put reminders there.
TEST(Messages, MayHoldWordsOfTheSystemBehindTheFirst) {
  Json body = {{"max_tokens", 1},
               {"system", "S"},
               {"messages", {turn("user", "Hi"), turn("system", "<reminder>x</reminder>")}}};
  EXPECT_EQ(server().post("/v1/messages", body).status, 200);
  EXPECT_EQ(tokens_fed(server(), body),
            tokens_of("system: S\nuser: Hi\nsystem: <reminder>x</reminder>\nassistant:"));

  TestServer::Options options;  // as Qwen3.5's and Gemma's
  options.chat_template =
      "{% for message in messages %}{% if message.role == 'system' and not loop.first %}"
      "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
      "{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:";
  TestServer strict(options);
  EXPECT_EQ(tokens_fed(strict, body),
            tokens_of("system: S\nuser: Hi\n<reminder>x</reminder>\nassistant:"));
  body["messages"].push_back(turn("assistant", "Yes."));
  body["messages"].push_back(turn("user", "So?"));
  EXPECT_EQ(strict.post("/apply-template", body).json()["prompt"],
            "user: Hi\n<reminder>x</reminder>\nassistant: Yes.\nuser: So?\nassistant:");
}

/// As clients write it, which is another with each request.
std::string bill(const std::string& number) {
  return "x-anthropic-billing-header: cc_version=2.1.154.abc; cch=" + number + ";";
}

TEST(Messages, LeaveOutTheLineForTheBill) {
  const std::string rest = "You are a kind man who tells long stories of cats and ships.";
  const auto with = [](const Json& system) {
    Json body = kMessage;
    body["system"] = system;
    body["max_tokens"] = 1;
    return body;
  };
  const auto block = [](const std::string& text) -> Json {
    return {{"type", "text"}, {"text", text}};
  };
  const int alone = tokens_fed(server(), with(rest));
  EXPECT_EQ(tokens_fed(server(), with({block(bill("0a1b2")), block(rest)})), alone);
  EXPECT_EQ(tokens_fed(server(), with(Json::array({block(bill("0a1b2") + "\n" + rest)}))), alone);
  EXPECT_EQ(tokens_fed(server(), with(bill("0a1b2") + "\n" + rest)), alone);
  EXPECT_EQ(tokens_fed(server(), with({block("Say: "), block(bill("0a1b2"))})),
            tokens_of("system: Say: " + bill("0a1b2") + "\nuser: Hi\nassistant:"));

  const auto reused = [&](const std::string& number) -> int {
    const Json body = with({block(bill(number)), block(rest)});
    return server().post("/v1/messages", body).json()["usage"]["cache_read_input_tokens"];
  };
  reused("0a1b2");
  const int equal = reused("0a1b2");
  EXPECT_EQ(reused("3c4d5"), equal);
  EXPECT_GT(equal, 10);
}

TEST(Messages, OfOneRoleThatFollowEachOtherAreOneTurn) {
  Json body = {{"messages",
                {turn("user", "Hi"), turn("user", "you"), turn("assistant", "Yes."),
                 turn("assistant", "I look.")}}};
  EXPECT_EQ(tokens_fed(server(), body), tokens_of("user: Hi\nyou\nassistant: Yes.\nI look."));
}

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
