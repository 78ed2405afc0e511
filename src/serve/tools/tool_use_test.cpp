#include "serve/tools/tool_use.h"

#include <gtest/gtest.h>

#include "serve/tools/tool_fields.h"

namespace talon::tool_use_test {
namespace {

/// A chat with two calls and what they gave, in the other order.
std::vector<ChatMessage> two_calls() {
  std::vector<ChatMessage> messages = {
      {"user", "a"}, {"assistant", "I look."}, {"tool", "2"}, {"tool", "1"}, {"assistant", "So."}};
  for (const char* name : {"one", "two"})
    messages[1].more["tool_calls"].push_back(call_for_template(name, name, "{}"));
  for (std::size_t i = 2; i < 4; ++i) {
    const char* name = i == 2 ? "two" : "one";
    messages[i].more["tool_call_id"] = name;
    messages[i].more["name"] = name;
  }
  return messages;
}

/// That chat as such a template writes it.
std::string written(const std::string& source) {
  const ChatTemplate chat(source, "", "");
  std::vector<ChatMessage> messages = two_calls();
  fit_calls(chat, messages);
  return chat.render(messages);
}

/// OpenAI's clients take nothing else; Anthropic's interface has a field for it.
TEST(Choices, OfAFunctionByItsNameAreOneCall) {
  const auto is_parallel = [](ToolShape shape, const Json& tool, const Json& choice) {
    Json body = {{"tool_choice", choice}};
    body["tools"].push_back(tool);
    return read_tools(shape, Fields(body), OrderedJson::parse(body.dump()), {}).parallel;
  };
  const Json nested = {{"type", "function"}, {"function", {{"name", "a"}}}};
  EXPECT_FALSE(is_parallel(ToolShape::chat, nested, nested));
  EXPECT_TRUE(is_parallel(ToolShape::chat, nested, "required"));
  const Json flat = {{"type", "function"}, {"name", "a"}};
  EXPECT_FALSE(is_parallel(ToolShape::responses, flat, flat));
  const Json chosen = {{"type", "tool"}, {"name", "a"}};
  EXPECT_TRUE(is_parallel(ToolShape::messages, {{"name", "a"}}, chosen));
}

TEST(Calls, HaveTheIdsOfTheFamilyWhereATemplateWritesNothingElse) {
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}, {"tool", "b"}};
  for (const char* id : {"call_1", "call_2"})
    messages[1].more["tool_calls"].push_back(call_for_template(id, "get", "{}"));
  messages[2].more["tool_call_id"] = "call_2";
  name_calls_by_ids(messages);
  EXPECT_EQ(messages[1].more["tool_calls"][0]["id"], "functions.get:0");
  EXPECT_EQ(messages[1].more["tool_calls"][1]["id"], "functions.get:1");
  EXPECT_EQ(messages[2].more["tool_call_id"], "functions.get:1");
}

TEST(Calls, HaveIdsOfNineLettersAndDigitsForATemplateThatTakesNoOthers) {
  const std::string foreign = "toolu_0123456789abcdef01234567";
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}, {"tool", "b"}};
  for (const std::string& id : {std::string("a1B2c3D4e"), foreign, std::string("call_9-ab")})
    messages[1].more["tool_calls"].push_back(call_for_template(id, "get", "{}"));
  messages[2].more["tool_call_id"] = foreign;
  shorten_call_ids(messages);
  const OrderedJson& calls = messages[1].more["tool_calls"];
  EXPECT_EQ(calls[0]["id"], "a1B2c3D4e");
  EXPECT_EQ(messages[2].more["tool_call_id"], calls[1]["id"]);
  EXPECT_NE(calls[1]["id"], calls[2]["id"]);
  for (const OrderedJson& call : calls) {
    const std::string id = call["id"];
    EXPECT_TRUE(testing::internal::RE::FullMatch(id, "[A-Za-z0-9]{9}")) << id;
  }
}

TEST(Calls, AreMessagesOfTheirOwnForATemplateThatTakesOneAtATime) {
  const std::string begin = "{# ipython parameters #}{% for message in messages %}";
  const std::string one =
      "{% if message.tool_calls %}({{ message.tool_calls[0].function.name }}){% endif %}";
  const std::string all =
      "{% for call in message.tool_calls or [] %}({{ call.function.name }}){% endfor %}";
  const std::string refuses =
      "{% if message.tool_calls and message.tool_calls | length > 1 %}"
      "{{ raise_exception('single tool-calls') }}{% endif %}";
  const std::string end = "{{ message.content }};{% endfor %}";
  for (const std::string& calls : {one, refuses + all}) {
    EXPECT_EQ(written(begin + calls + end), "a;(one)I look.;1;(two);2;So.;") << calls;
  }
  EXPECT_EQ(written(begin + all + end), "a;(one)(two)I look.;2;1;So.;");
}

TEST(Calls, OfOneIdHaveTheirResultsInTheOrderOfThese) {
  std::vector<ChatMessage> messages = two_calls();
  messages.push_back({"tool", "of none"});
  std::swap(messages[4], messages[5]);
  for (OrderedJson& call : messages[1].more["tool_calls"]) call["id"] = "c";
  for (std::size_t i = 2; i < 5; ++i) messages[i].more["tool_call_id"] = i < 4 ? "c" : "d";
  split_calls(messages);
  std::string all;
  for (const ChatMessage& message : messages) all += message.content + ";";
  EXPECT_EQ(all, "a;I look.;2;;1;of none;So.;");
}

/// Granite 3's write the list of tools, and of a message its role and what it says.
TEST(Calls, AreWordsForATemplateThatLeavesThemOut) {
  const std::string messages =
      "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}";
  const std::string results = "\ntool: 2\ntool: 1\nassistant: So.\n";
  EXPECT_EQ(written("{# <|tool_call|> #}" + messages),
            R"(user: a
assistant: I look.
<|tool_call|>[{"name":"one","arguments":{}},{"name":"two","arguments":{}}])" +
                results);
  EXPECT_EQ(written("{# <tool_call> #}" + messages),
            R"(user: a
assistant: I look.
<tool_call>
{"name":"one","arguments":{}}
</tool_call>
<tool_call>
{"name":"two","arguments":{}}
</tool_call>)" + results);
}

/// LFM2's write messages alone.
TEST(Calls, OfLfm2AreThoseOfPython) {
  EXPECT_EQ(written("{# <|tool_list_start|> #}{% for message in messages %}{{ message.content }};"
                    "{% endfor %}"),
            "a;I look.\n<|tool_call_start|>[one(), two()]<|tool_call_end|>;2;1;So.;");
  std::vector<ChatMessage> messages = {{"assistant", ""}};
  messages[0].more["tool_calls"].push_back(call_for_template(
      "1", "get", R"({"city": "a \"b\"", "days": 2, "far": true, "at": null, "list": [1, {}]})"));
  spell_calls(messages, ToolDialect::lfm2);
  EXPECT_EQ(messages[0].content,
            R"(<|tool_call_start|>[get(city="a \"b\"", days=2, far=True, at=None, )"
            R"(list=[1,{}])]<|tool_call_end|>)");
}

TEST(Calls, HaveTheirArgumentsAsATextForATemplateThatTakesNothingElse) {
  const std::string begin = "{# <|tools_prefix|> #}{% for message in messages %}";
  const std::string end = "{{ message.content }};{% endfor %}";
  EXPECT_EQ(written(begin +
                    "{% for call in message.tool_calls or [] %}"
                    "{{ '{' + call.function.name + ':' + call.function.arguments + '}' }}"
                    "{% endfor %}" +
                    end),
            "a;{one:{}}{two:{}}I look.;2;1;So.;");
  EXPECT_EQ(written(begin +
                    "{% for call in message.tool_calls or [] %}{{ call.function.name }}"
                    "{% if call.function.arguments is mapping %}: {% endif %}{% endfor %}" +
                    end),
            "a;one: two: I look.;2;1;So.;");
}

/// Hunyuan's write results between tags of that name.
TEST(Calls, KeepTheirResultsForATemplateWithATagOfThatName) {
  EXPECT_EQ(
      written("{# <tool_calls> <tool_call> <tool_sep> #}{% for message in messages %}"
              "{% for call in message.tool_calls or [] %}({{ call.function.name }}){% endfor %}"
              "{% if message.role == 'tool' %}<tool_responses>{{ message.content }}"
              "</tool_responses>{% else %}{{ message.content }};{% endif %}{% endfor %}"),
      "a;(one)(two)I look.;<tool_responses>2</tool_responses>"
      "<tool_responses>1</tool_responses>So.;");
}

TEST(Calls, HaveTheirResultsForATemplateThatLooksForThemThere) {
  const std::string begin = "{# <|tool_call> #}{% for message in messages %}<{{ message.role }}>";
  const std::string calls =
      "{% for call in message.tool_calls or [] %}call:{{ call.function.name }};{% endfor %}";
  const std::string results =
      "{% for result in message.tool_responses or [] %}response:{{ result.name }}="
      "{{ result.response }};{% endfor %}";
  const std::string end = "{{ message.content }}{% endfor %}";
  EXPECT_EQ(written(begin + calls + results + end),
            "<user>a<assistant>I look.<assistant>call:one;call:two;response:two=2;response:one=1;"
            "So.");
  // Later ones look for messages of that role as well.
  const std::string named = "{% if message.role == 'tool' %}{{ message.name }}={% endif %}";
  EXPECT_EQ(written(begin + calls + results + named + end),
            "<user>a<assistant>call:one;call:two;I look.<tool>two=2<tool>one=1<assistant>So.");
}

TEST(Calls, ThatAreToldInWordsLeaveThoughts) {
  std::vector<ChatMessage> messages = two_calls();
  messages.back().more["reasoning_content"] = "Hm.";
  spell_tools(messages, {}, true);
  EXPECT_FALSE(messages[1].more.contains("tool_calls"));
  EXPECT_EQ(messages.back().more["reasoning_content"], "Hm.");
}

}  // namespace
}  // namespace talon::tool_use_test
