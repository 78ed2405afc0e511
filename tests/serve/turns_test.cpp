#include <gtest/gtest.h>

#include <ctime>

#include "serve/api/messages.h"
#include "serve/tools/tool_use.h"
#include "test_server.h"

// What earlier turns of a chat thought and called, on every path.
namespace talon::test::turns_test {
namespace {

TestServer::Options with_template(const char* source) {
  TestServer::Options options;
  options.chat_template = source;
  return options;
}

/// Takes ids of nine characters alone, as Mistral's do.
constexpr const char* kNineCharacters =
    "{# [TOOL_CALLS] #}{{ tools }}{% for message in messages %}{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{% if call.id | length != 9 %}"
    "{{ raise_exception('ids of nine characters') }}{% endif %}call {{ call.id }};{% endfor %}"
    "{% if message.role == 'tool' %}{% if message.tool_call_id | length != 9 %}"
    "{{ raise_exception('ids of nine characters') }}{% endif %}of {{ message.tool_call_id }};"
    "{% endif %}{% endfor %} assistant:";

const Json kUser = {{"role", "user"}, {"content", "Hi"}};

/// A chat with a call of that id and what it gave.
Json chat_with_call(const std::string& id) {
  const Json call = {{"id", id}, {"function", {{"name", "time"}, {"arguments", "{}"}}}};
  return {{"max_tokens", 1},
          {"messages",
           {kUser,
            {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
            {{"role", "tool"}, {"tool_call_id", id}, {"content", "noon"}}}}};
}

TEST(Turns, OfMistralHaveIdsThatItsTemplatesTake) {
  TestServer server(with_template(kNineCharacters));
  const std::string id = "call_0123456789abcdef01234567";
  const Reply chat = server.post("/v1/chat/completions", chat_with_call(id));
  EXPECT_EQ(chat.status, 200) << chat.body;
  const auto prompt = [&](const std::string& of) {
    return server.post("/apply-template", chat_with_call(of)).json()["prompt"].get<std::string>();
  };
  const std::string text = prompt(id);
  const std::string given = text.substr(text.find("call ") + 5, 9);
  EXPECT_NE(text.find("of " + given + ";"), std::string::npos) << text;
  EXPECT_EQ(prompt(id), text);
  EXPECT_NE(prompt("a1B2c3D4e").find("call a1B2c3D4e;"), std::string::npos);
}

TEST(Turns, OfMistralFollowACallOnEveryPath) {
  TestServer server(with_template(kNineCharacters));
  const Json tool = {{"name", "time"}, {"input_schema", {{"type", "object"}}}};
  Json body = {{"messages", {kUser}},
               {"max_tokens", 100},
               {"temperature", 0},
               {"tools", {tool}},
               {"structured_outputs", {{"choice", {R"([TOOL_CALLS][{"name": "time"}])"}}}}};
  const Json used = server.post("/v1/messages", body).json()["content"];
  ASSERT_EQ(used[0]["type"], "tool_use") << used;
  body["messages"].push_back({{"role", "assistant"}, {"content", used}});
  const Json result = {
      {"type", "tool_result"}, {"tool_use_id", used[0]["id"]}, {"content", "noon"}};
  body["messages"].push_back({{"role", "user"}, {"content", {result}}});
  const Reply message = server.post("/v1/messages", body);
  EXPECT_EQ(message.status, 200) << message.body;

  Json asked = {{"input", {kUser}},
                {"temperature", 0},
                {"tools", {{{"type", "function"}, {"name", "time"}}}},
                {"structured_outputs", body["structured_outputs"]}};
  const Json output = server.post("/v1/responses", asked).json()["output"];
  ASSERT_EQ(output[0]["type"], "function_call") << output;
  asked["input"].push_back(output[0]);
  asked["input"].push_back(
      {{"type", "function_call_output"}, {"call_id", output[0]["call_id"]}, {"output", "noon"}});
  const Reply response = server.post("/v1/responses", asked);
  EXPECT_EQ(response.status, 200) << response.body;
}

/// Writes thoughts under the name that gpt-oss' has for them.
TestServer& thinking() {
  static TestServer server(
      with_template("{# <tool_call> #}{% for message in messages %}{{ message.role }}:"
                    "{% if message.thinking %} ("
                    "{{ message.thinking }}){% endif %} {{ message.content }}"
                    "{% for call in message.tool_calls or [] %}{{ call.function.name }}"
                    "{% endfor %}\n{% endfor %}{{ tools }}assistant:"));
  return server;
}

/// Tokens of the prompt of a chat whose call was thought of so.
int tokens_of_chat(const std::string& thought) {
  Json body = chat_with_call("c");
  if (!thought.empty()) body["messages"][1]["reasoning_content"] = thought;
  return thinking().post("/tokenize", body).json()["count"];
}

/// Gemma 2's and Llama 2's templates know no tools, and roles take turns.
constexpr const char* kTurns =
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:";

TEST(Turns, OfResultsAreOneOfTheUser) {
  TestServer server(with_template(kTurns));
  Json body = chat_with_call("a");
  Json& calls = body["messages"][1]["tool_calls"];
  calls.push_back(calls[0]);
  calls[1]["id"] = "b";
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "b"}, {"content", "one"}});
  body["messages"].push_back({{"role", "user"}, {"content", "So?"}});
  const Reply reply = server.post("/apply-template", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const std::string prompt = reply.json()["prompt"];
  EXPECT_TRUE(
      prompt.ends_with("user: <tool_response>\nnoon\n</tool_response>\n<tool_response>\n"
                       "one\n</tool_response>\nSo?\nassistant:"))
      << prompt;

  const Json call = {
      {"type", "tool_use"}, {"id", "c"}, {"name", "time"}, {"input", Json::object()}};
  const Json result = {{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", "noon"}};
  const Json said = {{"type", "text"}, {"text", "So?"}};
  body["messages"] = {kUser,
                      {{"role", "assistant"}, {"content", {call}}},
                      {{"role", "user"}, {"content", {result, said}}},
                      {{"role", "user"}, {"content", "Well?"}}};
  const Reply counted = server.post("/v1/messages/count_tokens", body);
  EXPECT_EQ(counted.status, 200) << counted.body;
}

/// Llama 3's take one call of a message, and its models make more.
TEST(Turns, OfTwoCallsAreTwoWhereTheTemplateTakesNoOthers) {
  TestServer server(with_template(
      "{# ipython parameters #}{{ tools or '' }}{% for message in messages %}"
      "{% if message.tool_calls and message.tool_calls | length > 1 %}"
      "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
      "{{ message.content }}{% for call in message.tool_calls or [] %}({{ call.function.name }})"
      "{% endfor %};{% endfor %}assistant:"));
  Json body = chat_with_call("a");
  Json& calls = body["messages"][1]["tool_calls"];
  calls.push_back(calls[0]);
  calls[1]["id"] = "b";
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "b"}, {"content", "one"}});
  const Reply reply = server.post("/apply-template", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["prompt"], "Hi;(time);noon;(time);one;assistant:");
}

TEST(Turns, OfOneRoleAreOneWhereTheTemplateTakesNoOthers) {
  const Json said = {{"role", "assistant"}, {"content", "Well."}},
             more = {{"role", "user"}, {"content", "So?"}};
  const Json body = {{"messages", {kUser, more, said, said, more}}};
  TestServer turns(with_template(kTurns)), lines;
  EXPECT_EQ(turns.post("/apply-template", body).json()["prompt"],
            "user: Hi\n\nSo?\nassistant: Well.\n\nWell.\nuser: So?\nassistant:");
  EXPECT_EQ(lines.post("/apply-template", body).json()["prompt"],
            "user: Hi\nuser: So?\nassistant: Well.\nassistant: Well.\nuser: So?\nassistant:");
  const Reply response =
      turns.post("/v1/responses", {{"input", {kUser, more}}, {"max_output_tokens", 1}});
  EXPECT_EQ(response.status, 200) << response.body;
}

TEST(Turns, OfTheAssistantNeedNoContent) {
  TestServer server;
  const Json silent = {{"role", "assistant"}, {"content", nullptr}};
  Json refused = silent, thought = silent;
  refused["refusal"] = "No.";
  thought["reasoning_content"] = "Hm.";
  thought["tool_calls"] = Json::array();
  Json body = {{"messages", {kUser, silent, kUser, refused, kUser, thought, kUser}}};
  Json answer = server.post("/apply-template", body).json();
  EXPECT_EQ(answer["prompt"],
            "user: Hi\nassistant: \nuser: Hi\nassistant: No.\nuser: Hi\nassistant: \n"
            "user: Hi\nassistant:")
      << answer;
  body["messages"][1]["role"] = "user";
  EXPECT_EQ(server.post("/apply-template", body).json()["error"]["param"], "messages[1].content");
}

TEST(Turns, OfTheAssistantMayHoldARefusalAmongTheirParts) {
  TestServer server;
  const Json words = {{"type", "text"}, {"text", "Well. "}},
             refusal = {{"type", "refusal"}, {"refusal", "No."}};
  Json body = {
      {"messages", {kUser, {{"role", "assistant"}, {"content", {words, refusal}}}, kUser}}};
  EXPECT_EQ(server.post("/apply-template", body).json()["prompt"],
            "user: Hi\nassistant: Well. No.\nuser: Hi\nassistant:");
  body["messages"][1]["role"] = "user";
  EXPECT_EQ(server.post("/apply-template", body).json()["error"]["param"],
            "messages[1].content[1].type");

  const auto tokens = [&](const Json& content) -> int {
    const Json said = {{"role", "assistant"}, {"content", content}};
    const Json response = {{"input", {kUser, said, kUser}}, {"max_output_tokens", 1}};
    return server.post("/v1/responses", response).json()["usage"]["input_tokens"];
  };
  const Json output = {{"type", "output_text"}, {"text", "Well. "}};
  EXPECT_EQ(tokens({output, refusal}), tokens("Well. No."));
}

TEST(Turns, OfACallWithoutArgumentsHaveAnEmptyObject) {
  TestServer server(with_template(
      "{# <tool_call> #}{% for message in messages %}{% for call in message.tool_calls or [] %}"
      "{{ call.function.name }}({% for k, v in call.function.arguments | items %}{{ k }}"
      "{% endfor %}){% endfor %}{% endfor %}{{ tools }}"));
  for (const char* arguments : {"{}", "", " \n"}) {
    Json body = chat_with_call("c");
    body["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments;
    const Reply reply = server.post("/apply-template", body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(reply.json()["prompt"].get<std::string>().starts_with("time()")) << reply.body;
  }
}

TEST(Turns, OfResultsHaveTheNameOfTheLastCallOfTheirId) {
  TestServer server(
      with_template("{# <tool_call> #}name: {{ messages[-1].name }}{{ tools or '' }}"));
  Json body = chat_with_call("c");
  Json& calls = body["messages"][1]["tool_calls"];
  calls.push_back(calls[0]);
  calls[1]["function"]["name"] = "date";
  EXPECT_EQ(server.post("/apply-template", body).json()["prompt"], "name: date");
  body["messages"][2]["tool_call_id"] = "d";
  EXPECT_EQ(server.post("/apply-template", body).json()["prompt"], "name: ");
}

/// A look at all calls for each result takes minutes.
TEST(Turns, OfManyResultsAreNamedQuickly) {
  std::vector<ChatMessage> messages(50, {"assistant", ""});
  for (ChatMessage& message : messages) {
    message.more["tool_calls"] = OrderedJson(1000, call_for_template("c", "time", "{}"));
  }
  for (int i = 0; i < 16000; ++i) messages.push_back(call_result("c", ""));
  const std::clock_t begin = std::clock();
  name_results(messages);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20);
  EXPECT_EQ(messages.back().more["name"], "time");
}

Json thinking_block(const char* text) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

TEST(Turns, KeepTheThoughtsOfMessages) {
  const Json call = {
      {"type", "tool_use"}, {"id", "c"}, {"name", "time"}, {"input", Json::object()}};
  const Json result = {{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", "noon"}};
  const auto tokens = [&](const Json& blocks) -> int {
    const Json body = {{"messages",
                        {kUser,
                         {{"role", "assistant"}, {"content", blocks}},
                         {{"role", "user"}, {"content", {result}}}}}};
    return thinking().post("/v1/messages/count_tokens", body).json()["input_tokens"];
  };
  const Json first = thinking_block("I must look."), second = thinking_block("At a clock.");
  const int without = tokens(Json::array({call})), one = tokens({first, call}),
            two = tokens({first, second, call});
  EXPECT_LT(without, one);
  EXPECT_LT(one, two);
  EXPECT_EQ(without, tokens_of_chat(""));
  EXPECT_EQ(one, tokens_of_chat("I must look."));
  EXPECT_EQ(two, tokens_of_chat("I must look.\nAt a clock."));
  // That template takes no thought beside words and calls.
  const Json words = {{"type", "text"}, {"text", "Well."}};
  EXPECT_EQ(tokens({first, words, call}), tokens({words, call}));
}

Json thought_item(const char* part_type, const char* field, const char* text) {
  Json item = {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}};
  item[field] = Json::array({{{"type", part_type}, {"text", text}}});
  return item;
}

TEST(Turns, KeepTheThoughtsOfResponses) {
  const Json call = {
      {"type", "function_call"}, {"call_id", "c"}, {"name", "time"}, {"arguments", "{}"}};
  const Json result = {{"type", "function_call_output"}, {"call_id", "c"}, {"output", "noon"}};
  const auto tokens = [&](const Json& input) -> int {
    const Json body = {{"input", input}, {"max_output_tokens", 1}};
    return thinking().post("/v1/responses", body).json()["usage"]["input_tokens"];
  };
  const Json first = thought_item("reasoning_text", "content", "I must look."),
             second = thought_item("summary_text", "summary", "At a clock.");
  const int without = tokens({kUser, call, result}), one = tokens({kUser, first, call, result});
  EXPECT_LT(without, one);
  EXPECT_EQ(without, tokens_of_chat(""));
  EXPECT_EQ(one, tokens_of_chat("I must look."));
  EXPECT_EQ(tokens({kUser, first, second, call, result}),
            tokens_of_chat("I must look.\nAt a clock."));
  const Json said = {{"role", "assistant"}, {"content", "Noon."}};
  EXPECT_LT(tokens({kUser, said, kUser}), tokens({kUser, first, said, kUser}));
  // One that nothing of the assistant follows belongs to no turn.
  EXPECT_EQ(tokens({kUser, first, kUser}), tokens({kUser, kUser}));
}

/// Templates have no place for a result that is an error: its text says it.
TEST(Turns, OfCallsThatFailedSayItInTheirText) {
  TestServer server(with_template(kHermes));
  const auto tokens = [&](const Json& content, bool is_error) {
    const Json use = {
        {"type", "tool_use"}, {"id", "t"}, {"name", "time"}, {"input", Json::object()}};
    Json result = {{"type", "tool_result"}, {"tool_use_id", "t"}, {"content", content}};
    if (is_error) result["is_error"] = true;
    const Json body = {{"messages",
                        {kUser,
                         {{"role", "assistant"}, {"content", {use}}},
                         {{"role", "user"}, {"content", {result}}}}}};
    const Reply reply = server.post("/v1/messages/count_tokens", body);
    return reply.json()["input_tokens"].get<int>();
  };
  EXPECT_GT(tokens("no such town", true), tokens("no such town", false));
  EXPECT_EQ(tokens("no such town", true), tokens("Error: no such town", false));
  EXPECT_EQ(tokens("", true), tokens("Error", false));
  const Json parts = Json::array({{{"type", "text"}, {"text", "TypeError: no such town"}}});
  EXPECT_EQ(tokens(parts, true), tokens(parts, false));
  EXPECT_EQ(tokens("gone\nError", true), tokens("Error: gone\nError", false));
}

TEST(Turns, RefuseThoughtsThatAreNoTexts) {
  const Json item = thought_item("output_text", "content", "a");
  const Json error = thinking().post("/v1/responses", {{"input", {kUser, item}}}).json()["error"];
  EXPECT_EQ(error["param"], "input[1].content[0].type");
  EXPECT_EQ(error["message"],
            "input[1].content[0].type: expected reasoning_text, found \"output_text\"");
}

}  // namespace
}  // namespace talon::test::turns_test
