#include <gtest/gtest.h>

#include "test_server.h"

// Calls of tools on every path. The small model calls none of itself: it is made to.
namespace talon::test::tools_test {
namespace {

TestServer& server() {
  static TestServer server([] {
    TestServer::Options options;
    options.chat_template = kHermes;
    return options;
  }());
  return server;
}

const Json kParameters = {{"type", "object"},
                          {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}},
                          {"required", {"city"}},
                          {"additionalProperties", false}};

Json function(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", kParameters}}}};
}

Json chat_body() {
  return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
          {"max_tokens", 120},
          {"temperature", 0.8},
          {"seed", 1},
          {"parallel_tool_calls", false},
          {"tool_choice", "required"},
          {"tools", {function("weather"), function("time")}}};
}

void expect_city(const std::string& arguments) {
  EXPECT_TRUE(arguments == R"({"city": "Rome"})" || arguments == R"({"city": "Oslo"})")
      << arguments;
}

TEST(Tools, AreCalledWhereTheyMustBe) {
  const Reply reply = server().post("/v1/chat/completions", chat_body());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json choice = reply.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  expect_city(call["function"]["arguments"]);
}

TEST(Tools, ThatAreNotAllowedAreNotTold) {
  Json body = chat_body();
  const Json allowed = {{"mode", "auto"}, {"tools", {function("time")}}};
  body["tool_choice"] = {{"type", "allowed_tools"}, {"allowed_tools", allowed}};
  const auto prompt = [&] { return server().post("/apply-template", body).json()["prompt"]; };
  const std::string told = prompt();
  EXPECT_NE(told.find("time"), std::string::npos) << told;
  EXPECT_EQ(told.find("weather"), std::string::npos) << told;
  body["tool_choice"]["allowed_tools"]["mode"] = "required";
  const Json message = server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "time");
  body["tool_choice"]["allowed_tools"]["tools"][0]["function"]["name"] = "tide";
  EXPECT_EQ(server().post("/v1/chat/completions", body).json()["error"]["param"],
            "tool_choice.allowed_tools.tools[0].function.name");
}

TEST(Tools, OfOneNameAreCalledByIt) {
  Json body = chat_body();
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "time"}}}};
  body.erase("parallel_tool_calls");
  const Json message = server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
  ASSERT_EQ(message["tool_calls"].size(), 1U) << message;
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "time");
  body["tool_choice"]["function"]["name"] = "tide";
  EXPECT_EQ(server().post("/v1/chat/completions", body).json()["error"]["param"],
            "tool_choice.function.name");
}

TEST(Tools, HaveAnObjectOfArgumentsWhateverTheirSchemaSays) {
  const Json city = {{"properties", kParameters["properties"]}, {"additionalProperties", false}};
  const Json of_any = {{"anyOf", {city}}};
  const Json elsewhere = {{"$ref", "#/$defs/city"}, {"$defs", {{"city", city}}}};
  Json body = chat_body();
  for (const Json& parameters : {Json(), Json::object(), city, of_any, elsewhere}) {
    body["tools"] = {function("a")};
    body["tools"][0]["function"]["parameters"] = parameters;
    const Reply reply = server().post("/v1/chat/completions", body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json message = reply.json()["choices"][0]["message"];
    const std::string arguments = message["tool_calls"][0]["function"]["arguments"];
    EXPECT_TRUE(arguments.starts_with("{")) << parameters << arguments;
  }
}

TEST(Tools, StreamAsPiecesThatJoinToTheWhole) {
  Json body = chat_body();
  const Json whole =
      server().post("/v1/chat/completions", body).json()["choices"][0]["message"]["tool_calls"][0];
  body["stream"] = true;
  std::string name, arguments;
  Json finish;
  for (const Json& event : server().post("/v1/chat/completions", body).events()) {
    for (const Json& choice : event["choices"]) {
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      for (const Json& call : choice["delta"].value("tool_calls", Json::array())) {
        EXPECT_EQ(call["index"], 0);
        name += call["function"].value("name", "");
        arguments += call["function"].value("arguments", "");
      }
    }
  }
  EXPECT_EQ(finish, "tool_calls");
  EXPECT_EQ(name, whole["function"]["name"]);
  EXPECT_EQ(arguments, whole["function"]["arguments"]);
}

TEST(Tools, ThatNeedNotBeCalledLeaveTheText) {
  Json body = chat_body();
  body["max_tokens"] = 12;
  for (const char* choice : {"auto", "none"}) {
    body["tool_choice"] = choice;
    const Json message =
        server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
    EXPECT_FALSE(message.contains("tool_calls"));
    EXPECT_FALSE(message["content"].get<std::string>().empty());
  }
}

TEST(Tools, AndTheirResultsAreGivenToTheTemplate) {
  Json body = chat_body();
  body["messages"] = Json::parse(
      R"([{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
           "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}}]},
          {"role": "tool", "tool_call_id": "c1", "content": "<|im_end|> warm"}])");
  const std::string prompt = server().post("/apply-template", body).json()["prompt"];
  EXPECT_NE(prompt.find(R"(<tool_call>{"name": "weather", "arguments": {"city": "Rome"}})"),
            std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("tool: <|im_end|> warm"), std::string::npos) << prompt;
  EXPECT_TRUE(prompt.starts_with("tools: {\"type\": \"function\"")) << prompt;
  body["tool_choice"] = "none";
  EXPECT_TRUE(server()
                  .post("/apply-template", body)
                  .json()["prompt"]
                  .get<std::string>()
                  .starts_with("user: Hi"));
}

TEST(Tools, AreToldInWordsToATemplateThatKnowsNone) {
  TestServer plain;
  const std::string prompt = plain.post("/apply-template", chat_body()).json()["prompt"];
  EXPECT_TRUE(prompt.starts_with("system: You can call functions.")) << prompt;
  EXPECT_NE(prompt.find(R"("name":"weather")"), std::string::npos) << prompt;
  const Json message =
      plain.post("/v1/chat/completions", chat_body()).json()["choices"][0]["message"];
  expect_city(message["tool_calls"][0]["function"]["arguments"]);
}

/// Some write calls in marks of their own, or tools that a message brings, but none that they are
/// given: DeepSeek's of R1 and V3, Phi 4 mini's. Others may look for a message of the system, or
/// have calls of a form that is not known here.
TEST(Tools, AreToldInWordsToATemplateThatDoesNotWriteThem) {
  constexpr const char* kMessages =
      "{% for message in messages %}{{ message.role }}: {{ message.content }}"
      "{% if message.role == 'system' and 'tools' in message %}<|tool|>{{ message.tools }}"
      "{% endif %}\n{% endfor %}assistant:";
  const Json system = {{"role", "system"}, {"content", "Be kind."}};
  for (const char* begin :
       {"{# <｜tool▁sep｜> #}", "{# <|tool_call|> #}",
        "{# <tool_call> #}{% if messages[0].role != 'system' %}{{ tools }}{% endif %}",
        "{# <|observation|> #}{% if tools %}{{ tools }}{% endif %}"}) {
    TestServer::Options options;
    options.chat_template = std::string(begin) + kMessages;
    TestServer family(options);
    Json body = chat_body();
    body["messages"].insert(body["messages"].begin(), system);
    body["tool_choice"] = "auto";
    const std::string prompt = family.post("/apply-template", body).json()["prompt"];
    EXPECT_TRUE(prompt.starts_with("system: Be kind.\nYou can call functions.")) << prompt;
    body["max_tokens"] = 300;
    body["structured_outputs"]["choice"] = {
        R"(<tool_call>{"name": "time", "arguments": {"city": "Rome"}}</tool_call>)"};
    const Json message = family.post("/v1/chat/completions", body).json()["choices"][0]["message"];
    ASSERT_TRUE(message.contains("tool_calls")) << begin << message;
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "time") << begin;
  }
}

TEST(Tools, HaveATemplateOfTheirOwnWhereTheModelHasOne) {
  TestServer::Options options;
  options.tool_template = kHermes;
  TestServer two(options);
  const auto prompt = [&](const Json& body) {
    return two.post("/apply-template", body).json()["prompt"].get<std::string>();
  };
  Json body = chat_body();
  EXPECT_TRUE(prompt(body).starts_with("tools: {")) << prompt(body);
  const Json message = two.post("/v1/chat/completions", body).json()["choices"][0]["message"];
  expect_city(message["tool_calls"][0]["function"]["arguments"]);
  body["tool_choice"] = "none";
  EXPECT_EQ(prompt(body), "user: Hi\nassistant:");
  body["messages"].push_back(Json::parse(
      R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
          "function": {"name": "weather", "arguments": "{}"}}]})"));
  EXPECT_NE(prompt(body).find("<tool_call>{\"name\": \"weather\""), std::string::npos)
      << prompt(body);
}

TEST(Tools, AreToldByTheUserToATemplateThatTakesNoSystemMessage) {
  TestServer::Options options;
  options.chat_template =
      "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
      "{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:";
  TestServer strict(options);
  const Reply reply = strict.post("/apply-template", chat_body());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const std::string prompt = reply.json()["prompt"];
  EXPECT_TRUE(prompt.starts_with("user: You can call functions.")) << prompt;
  EXPECT_TRUE(prompt.ends_with("</tool_call>\n\nHi\nassistant:")) << prompt;
}

TEST(Tools, OfLlamaAreCalledByTheirNamesAlone) {
  TestServer::Options options;
  options.chat_template =
      "{# ipython parameters #}{{ tools }}{% for message in messages %}{{ message.content }}"
      "{% endfor %} assistant:";
  TestServer llama(options);
  Json body = chat_body();
  body["tool_choice"] = "auto";
  const auto message_of = [&](const std::string& text) {
    body["structured_outputs"] = {{"choice", {text}}};
    return llama.post("/v1/chat/completions", body).json()["choices"][0]["message"];
  };
  const std::string person = R"({"name": "Alice", "age": 30})";
  EXPECT_EQ(message_of(person)["content"], person);
  EXPECT_FALSE(message_of(person).contains("tool_calls"));
  const Json called = message_of(R"({"name": "time", "parameters": {"city": "Rome"}})");
  EXPECT_EQ(called["tool_calls"][0]["function"]["name"], "time") << called;
}

TEST(Tools, OfResponsesAreItems) {
  Json body = {{"input", "Hi"},
               {"seed", 1},
               {"tool_choice", "required"},
               {"parallel_tool_calls", false},
               {"tools", {{{"type", "function"}, {"name", "time"}, {"parameters", kParameters}}}}};
  const Json answer = server().post("/v1/responses", body).json();
  ASSERT_EQ(answer["output"].size(), 1U) << answer;
  EXPECT_EQ(answer["output"][0]["type"], "function_call");
  EXPECT_EQ(answer["output"][0]["name"], "time");
  expect_city(answer["output"][0]["arguments"]);

  body["stream"] = true;
  const std::string events = server().post("/v1/responses", body).body;
  for (const char* type : {"response.output_item.added", "response.function_call_arguments.delta",
                           "response.function_call_arguments.done", "response.output_item.done",
                           "response.completed"}) {
    EXPECT_NE(events.find(std::string("event: ") + type + "\n"), std::string::npos) << type;
  }
  body.erase("stream");
  body["tool_choice"] = "none";
  body["max_output_tokens"] = 4;
  body["input"] = Json::parse(
      R"([{"role": "user", "content": "Hi"},
          {"type": "function_call", "call_id": "c", "name": "time", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "c", "output": "noon"}])");
  EXPECT_EQ(server().post("/v1/responses", body).status, 200);
}

TEST(Tools, OfMessagesAreBlocks) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"max_tokens", 120},
               {"seed", 1},
               {"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}},
               {"tools", {{{"name", "time"}, {"input_schema", kParameters}}}}};
  const Json answer = server().post("/v1/messages", body).json();
  EXPECT_EQ(answer["stop_reason"], "tool_use");
  ASSERT_EQ(answer["content"].size(), 1U) << answer;
  EXPECT_EQ(answer["content"][0]["type"], "tool_use");
  EXPECT_TRUE(answer["content"][0]["input"].contains("city"));

  body["stream"] = true;
  const std::string events = server().post("/v1/messages", body).body;
  EXPECT_NE(events.find("input_json_delta"), std::string::npos) << events;
  EXPECT_NE(events.find("\"stop_reason\":\"tool_use\""), std::string::npos) << events;
  body.erase("stream");
  body["tool_choice"] = {{"type", "none"}};
  body["max_tokens"] = 4;
  body["messages"] = Json::parse(
      R"([{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": [{"type": "text", "text": "I look."},
           {"type": "tool_use", "id": "t", "name": "time", "input": {"city": "Rome"}}]},
          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content":
           [{"type": "text", "text": "noon"}]}, {"type": "text", "text": "So?"}]}])");
  EXPECT_EQ(server().post("/v1/messages", body).status, 200);
  EXPECT_GT(server().post("/v1/messages/count_tokens", body).json()["input_tokens"], 20);
}

TEST(Tools, OfMessagesStandWhereTheyWereCalled) {
  const std::string call = R"(<tool_call>{"name": "time", "arguments": {}}</tool_call>)";
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"max_tokens", 300},
               {"temperature", 0},
               {"tools", {{{"name", "time"}, {"input_schema", {{"type", "object"}}}}}},
               {"structured_outputs", {{"choice", {"hello " + call + call + " end"}}}}};
  // The model may begin with a call as well: it is made to say hello.
  const Json hello = server().post("/tokenize", {{"content", "h"}}).json()["tokens"].back();
  body["logit_bias"] = {{std::to_string(hello.get<int>()), 100}};
  std::string whole, streamed;
  const Json answer = server().post("/v1/messages", body).json();
  for (const Json& block : answer["content"]) {
    whole += block["type"].get<std::string>() + " ";
  }
  EXPECT_EQ(whole, "text tool_use tool_use text ");
  body["stream"] = true;
  const std::string events = server().post("/v1/messages", body).body;
  const std::string mark = "\"content_block\":";
  for (std::size_t at = events.find(mark); at != events.npos; at = events.find(mark, at + 1)) {
    const std::size_t type = events.find("\"type\":\"", at) + 8;
    streamed += events.substr(type, events.find('"', type) - type) + " ";
  }
  EXPECT_EQ(streamed, whole);
}

/// The kinds of the blocks of a message, whole and streamed.
std::string blocks_of(Json body) {
  std::string kinds;
  const Json answer = server().post("/v1/messages", body).json();
  for (const Json& block : answer["content"]) kinds += block["type"].get<std::string>() + " ";
  kinds += answer["stop_reason"].get<std::string>() + "; ";
  body["stream"] = true;
  const std::string events = server().post("/v1/messages", body).body;
  for (std::size_t at = events.find("data: "); at != events.npos;) {
    const Json event = Json::parse(events.substr(at + 6, events.find('\n', at) - at - 6));
    if (event.contains("content_block")) {
      kinds += event["content_block"]["type"].get<std::string>() + " ";
    }
    if (event["type"] == "message_delta") kinds += event["delta"]["stop_reason"];
    at = events.find("data: ", at + 1);
  }
  return kinds;
}

TEST(Tools, AreCalledOnceWhereTheyMayBeAndNoMoreIsAllowed) {
  const auto call = [](const char* arguments) {
    return fmt::format("<tool_call>{{\"name\": \"time\", \"arguments\": {}}}</tool_call>",
                       arguments);
  };
  const Json two = {{"choice", {"hello " + call("{\"a\": 1}") + call("{\"b\": 2}")}}};
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"max_tokens", 300},
               {"temperature", 0},
               {"structured_outputs", two}};
  Json message = body;
  message["tools"] = {{{"name", "time"}, {"input_schema", {{"type", "object"}}}}};
  EXPECT_EQ(blocks_of(message), "text tool_use tool_use tool_use; text tool_use tool_use tool_use");
  message["tool_choice"] = {{"type", "auto"}, {"disable_parallel_tool_use", true}};
  EXPECT_EQ(blocks_of(message), "text tool_use tool_use; text tool_use tool_use");

  body["tools"] = {function("time")};
  body["parallel_tool_calls"] = false;
  const Json said = server().post("/v1/chat/completions", body).json()["choices"][0]["message"];
  ASSERT_EQ(said["tool_calls"].size(), 1U) << said;
  EXPECT_EQ(said["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
}

/// What is asked for as a call is one, in the marks of every family whose grammar has a schema.
TEST(Tools, AreCalledInTheMarksOfEachFamily) {
  for (const char* marks :
       {"[TOOL_CALLS]", "<|START_ACTION|>", "<｜tool▁sep｜>", "<|tool_call|>",
        "<seed:tool_call> <seed:think> </seed:think>", "<|tool_call_argument_begin|>", "<TOOLCALL>",
        "<function_calls>", "<|tool_list_start|>", "<minimax:tool_call>", "<tool_calls>",
        "<tool_calls> <tool_call> ```json", "<tool_calls> <tool_call> <tool_sep>",
        "<|tools_prefix|>"}) {
    TestServer::Options options;
    options.chat_template = std::string("{# ") + marks +
                            " #}{{ tools }}{% for message in messages %}{{ message.content }}"
                            "{% endfor %} assistant:";
    TestServer family(options);
    Json body = chat_body();
    body["temperature"] = 0;
    const Reply reply = family.post("/v1/chat/completions", body);
    ASSERT_EQ(reply.status, 200) << marks << reply.body;
    const Json message = reply.json()["choices"][0]["message"];
    ASSERT_TRUE(message.contains("tool_calls")) << marks << message;
    ASSERT_EQ(message["tool_calls"].size(), 1U) << marks << message;
    const std::string arguments = message["tool_calls"][0]["function"]["arguments"];
    EXPECT_TRUE(Json::parse(arguments)["city"].is_string()) << marks << arguments;
  }
}

/// The order that the model wrote comes back in the next turn, or the cache would not know the
/// text.
TEST(Tools, OfMessagesKeepTheOrderOfTheirKeys) {
  const std::string input = R"({"zone":1,"city":2})";
  const Json body = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
      {"max_tokens", 120},
      {"tools", {{{"name", "time"}, {"input_schema", {{"type", "object"}}}}}},
      {"structured_outputs",
       {{"choice", {R"(<tool_call>{"name": "time", "arguments": )" + input + "}</tool_call>"}}}}};
  const std::string answer = server().post("/v1/messages", body).body;
  EXPECT_NE(answer.find("\"input\":" + input), std::string::npos) << answer;

  const auto reused = [](const std::string& written) {
    Client client(server().port());
    const Reply reply = client.post(
        "/v1/messages",
        R"({"max_tokens": 1, "messages": [{"role": "user", "content": "What time is it there?"},
            {"role": "assistant", "content": [
             {"type": "tool_use", "id": "t", "name": "time", "input": )" +
            written + R"(}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                          "content": "noon"}]}]})");
    return reply.json()["usage"]["cache_read_input_tokens"].get<int>();
  };
  reused(input);
  const int other = reused(R"({"city":2,"zone":1})");
  EXPECT_LT(other, reused(input));
}

TEST(Tools, OfMessagesHaveNoInputThatIsTooDeep) {
  const std::string deep = "{\"a\": " + std::string(70, '[') + std::string(70, ']') + "}";
  const Json body = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
      {"max_tokens", 300},
      {"tools", {{{"name", "time"}, {"input_schema", {{"type", "object"}}}}}},
      {"structured_outputs",
       {{"choice", {R"(<tool_call>{"name": "time", "arguments": )" + deep + "}</tool_call>"}}}}};
  const Json answer = server().post("/v1/messages", body).json();
  EXPECT_EQ(answer["content"][0]["input"], Json::object()) << answer;
}

}  // namespace
}  // namespace talon::test::tools_test
