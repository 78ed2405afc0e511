#include <gtest/gtest.h>

#include "test_server.h"

// Thoughts before an answer, on every path. The small model thinks until its answer is cut.
namespace talon::test::thinking_test {
namespace {

TestServer& server() {
  static TestServer server([] {
    TestServer::Options options;
    options.chat_template =
        "{% for message in messages %}{{ message.content }}{% endfor %} <think>\n";
    return options;
  }());
  return server;
}

TEST(Thinking, IsApart) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}},
               {"max_tokens", 8},
               {"temperature", 0}};
  const Json answer = server().post("/v1/chat/completions", body).json();
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 8) << answer;
  const Json message = answer["choices"][0]["message"];
  EXPECT_EQ(message["content"], "");
  EXPECT_FALSE(message["reasoning_content"].get<std::string>().empty());
  const Json asked = {{"input", "Once"}, {"max_output_tokens", 8}, {"temperature", 0}};
  const Json response = server().post("/v1/responses", asked).json();
  EXPECT_EQ(response["output"][0]["type"], "reasoning");
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 8) << response;
  body["max_tokens"] = 200;
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"schema", {{"const", "done"}}}}}};
  body["logit_bias"] = Json::object();
  const Json done = server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_TRUE(done["content"] == "" || done["content"] == "\"done\"") << done;
}

TEST(Thinking, GoesOnWhereTheLastMessageLeftItOpen) {
  TestServer::Options options;
  options.chat_template =
      "{# [THINK] [/THINK] #}{% for message in messages %}{{ message.content }}{% endfor %}";
  TestServer other(options);
  const auto answer_after = [&](const char* said) {
    const Json user = {{"role", "user"}, {"content", "Once"}};
    const Json assistant = {{"role", "assistant"}, {"content", said}};
    const Json body = {{"messages", Json::array({user, assistant})},
                       {"continue_final_message", true},
                       {"max_tokens", 8},
                       {"temperature", 0}};
    return other.post("/v1/chat/completions", body).json()["choices"][0]["message"];
  };
  const Json open = answer_after("[THINK]Once upon a");
  EXPECT_EQ(open["content"], "") << open;
  EXPECT_TRUE(open.contains("reasoning_content")) << open;
  const Json ended = answer_after("[THINK]So.[/THINK]Once upon a");
  EXPECT_FALSE(ended.contains("reasoning_content")) << ended;
}

/// Clients of OpenAI's look for the part that a piece belongs to.
TEST(Thinking, IsAPartOfItsItemBeforeItsFirstPiece) {
  const Json body = {
      {"input", "Once"}, {"max_output_tokens", 8}, {"temperature", 0}, {"stream", true}};
  const std::string events = server().post("/v1/responses", body).body;
  std::size_t at = 0;
  for (const char* name : {"response.output_item.added", "response.content_part.added",
                           "response.reasoning_text.delta", "response.reasoning_text.done",
                           "response.content_part.done", "response.output_item.done"}) {
    const std::size_t found = events.find(fmt::format("event: {}\n", name));
    ASSERT_NE(found, std::string::npos) << name;
    EXPECT_GE(found, at) << name;
    at = found;
  }
  const std::size_t added = events.find("event: response.content_part.added");
  EXPECT_LT(events.find("\"type\":\"reasoning_text\"", added), events.find("\n\n", added));
}

/// Clients of Anthropic's give back no thought that is not signed.
TEST(Thinking, IsSignedAtItsEnd) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}},
               {"max_tokens", 8},
               {"temperature", 0}};
  const Json block = server().post("/v1/messages", body).json()["content"][0];
  ASSERT_EQ(block["type"], "thinking") << block;
  const std::string signature = block["signature"];
  EXPECT_FALSE(signature.empty());
  body["stream"] = true;
  const std::string events = server().post("/v1/messages", body).body;
  const Json delta = {{"type", "signature_delta"}, {"signature", signature}};
  const std::size_t at = events.find(delta.dump());
  ASSERT_NE(at, std::string::npos) << events;
  EXPECT_GT(at, events.rfind("thinking_delta"));
  EXPECT_LT(at, events.find("event: content_block_stop"));
  // Some clients add to what it begins with.
  EXPECT_LT(events.find(R"("signature":"")"), events.find("thinking_delta"));
}

TEST(Thinking, ComesBeforeAnAnswerOfEveryForm) {
  const Json forms[] = {{{"regex", "[ab]{3}"}},
                        {{"choice", {"yes", "no"}}},
                        {{"grammar", "root ::= \"a\" | \"bc\""}},
                        {{"grammar", "start: \"x\" \"y\""}},
                        {{"json", {{"const", "done"}}}}};
  for (const Json& form : forms) {
    const Json body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}},
                       {"max_tokens", 20},
                       {"temperature", 0},
                       {"structured_outputs", form}};
    const Reply reply = server().post("/v1/chat/completions", body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "length") << reply.body;
  }
}

TEST(Thinking, IsAsAGrammarSpellsIt) {
  const Json body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}},
                     {"max_tokens", 50},
                     {"grammar", "root ::= \"hm</think>\" (\"yes\" | \"no way\")"}};
  const Json message = server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_TRUE(message["content"] == "yes" || message["content"] == "no way") << message;
}

/// The number of tokens of a prompt tells what the template was asked for.
TEST(Thinking, IsAskedForOrNot) {
  TestServer::Options options;
  options.chat_template =
      "{{ messages[0].content }}{% if enable_thinking is defined %}"
      "{{ ' yes' if enable_thinking and thinking else ' no no no' }}{% endif %}";
  TestServer choosing(options);
  const auto answer = [&](const char* path, Json body, const Json& more) {
    body.update(more);
    return choosing.post(path, body).json();
  };
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}};
  const auto of_message = [&](const Json& more) {
    return answer("/v1/messages/count_tokens", chat, more)["input_tokens"].get<int>();
  };
  const int unasked = of_message(Json::object());
  const int yes =
      of_message({{"chat_template_kwargs", {{"enable_thinking", true}, {"thinking", true}}}});
  const int no = of_message({{"chat_template_kwargs", {{"enable_thinking", false}}}});
  ASSERT_LT(unasked, yes);
  ASSERT_LT(yes, no);
  EXPECT_EQ(of_message({{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}), yes);
  EXPECT_EQ(of_message({{"thinking", {{"type", "adaptive"}}}}), yes);
  EXPECT_EQ(of_message({{"thinking", {{"type", "disabled"}}}}), no);
  EXPECT_EQ(of_message({{"thinking", {{"type", "enabled"}}},
                        {"chat_template_kwargs", {{"enable_thinking", false}}}}),
            no);
  const Json of_chat = answer("/v1/chat/completions", chat, {{"reasoning_effort", "none"}});
  EXPECT_EQ(of_chat["usage"]["prompt_tokens"], no) << of_chat;
  const Json asked = {{"input", "Hi"}, {"max_output_tokens", 16}};
  const Json response = answer("/v1/responses", asked, {{"reasoning", {{"effort", "none"}}}});
  EXPECT_EQ(response["usage"]["input_tokens"], no) << response;
  const Json wrong = {{"thinking", {{"type", "on"}}}};
  EXPECT_EQ(answer("/v1/messages", chat, wrong)["error"]["message"],
            "thinking.type: expected one of enabled, adaptive, disabled, found \"on\"");
}

/// A template that knows it may make the model say more or less.
TEST(Chats, TellTheTemplateHowMuchTheModelShallSay) {
  TestServer::Options options;
  options.chat_template =
      "{{ messages[0].content }}{% if verbosity is defined %} {{ verbosity }}{% endif %}";
  TestServer choosing(options);
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  const auto prompt = [&] { return choosing.post("/apply-template", body).json()["prompt"]; };
  EXPECT_EQ(prompt(), "Hi");
  body["verbosity"] = "low";
  EXPECT_EQ(prompt(), "Hi low");
  Json asked = {{"input", "Hi"}, {"max_output_tokens", 1}};
  const int unasked = choosing.post("/v1/responses", asked).json()["usage"]["input_tokens"];
  asked["text"] = {{"verbosity", "low"}};
  const Json response = choosing.post("/v1/responses", asked).json();
  EXPECT_GT(response["usage"]["input_tokens"], unasked) << response;
  EXPECT_EQ(response["text"]["verbosity"], "low") << response;
}

TEST(Thinking, IsAsLongAsTheEffortOfAMessageSays) {
  TestServer::Options options;
  options.chat_template =
      "{{ messages[0].content }}{% if reasoning_effort is defined %} {{ reasoning_effort }}"
      "{% endif %}";
  TestServer choosing(options);
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}};
  const auto tokens = [&] {
    return choosing.post("/v1/messages/count_tokens", body).json()["input_tokens"].get<int>();
  };
  const int unasked = tokens();
  body["output_config"] = {{"effort", nullptr}};
  EXPECT_EQ(tokens(), unasked);
  body["output_config"] = {{"effort", "high"}};
  const int asked = tokens();
  EXPECT_GT(asked, unasked);
  const Json answer = choosing.post("/v1/messages", body).json();
  EXPECT_EQ(answer["usage"]["input_tokens"].get<int>() +
                answer["usage"]["cache_read_input_tokens"].get<int>(),
            asked)
      << answer;
}

}  // namespace
}  // namespace talon::test::thinking_test
