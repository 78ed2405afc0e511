#include <gtest/gtest.h>

#include "serve/tools/answer_style.h"

namespace talon::spelled_readers_test {
namespace {

/// Of a request that offers `get`, whose `city` is a text.
AnswerStyle offering_get(ToolDialect dialect) {
  AnswerStyle style = {.dialect = dialect, .tools = {"get"}};
  style.schemas["get"] = OrderedJson::parse(
      R"({"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})");
  return style;
}

/// "THOUGHT|WORDS|NAME ARGUMENTS;..." of a text that comes in such pieces.
std::string read(const AnswerStyle& style, const std::vector<std::string_view>& pieces) {
  const auto reader = make_reader(style);
  AnswerReader::Parts parts;
  for (const std::string_view piece : pieces) reader->read(piece, parts);
  reader->finish(parts);
  const ReadAnswer answer = joined(parts);
  std::string all = answer.reasoning + "|" + answer.content + "|";
  for (const ReadAnswer::Call& call : answer.calls) all += call.name + " " + call.arguments + ";";
  return all;
}

/// At every split of the text, and byte by byte.
void expect_read(const AnswerStyle& style, std::string_view text, const std::string& expected) {
  std::vector<std::string_view> bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    bytes.push_back(text.substr(at, 1));
    EXPECT_EQ(read(style, {text.substr(0, at), text.substr(at)}), expected) << at << " " << text;
  }
  EXPECT_EQ(read(style, bytes), expected) << text;
}

void expect_words(const AnswerStyle& style, const std::string& text) {
  expect_read(style, text, "|" + text + "|");
}

TEST(SpelledReaders, ReadListsOfLfm2) {
  AnswerStyle style = offering_get(ToolDialect::lfm2);
  style.reasons = true;
  expect_read(style,
              "<think>I look.</think><|tool_call_start|>[get(city=\"Rome [1]\", days=2), "
              "now()]<|tool_call_end|>One moment.",
              R"(I look.|One moment.|get {"city":"Rome [1]","days":2};now {};)");
  expect_read(style,
              R"(So: <|tool_call_start|>[get(city='Rome', far=True, at={"x": [null]})])"
              "<|tool_call_end|>\n<|tool_call_start|>[get(days=-1)]",
              R"(|So:|get {"city":"Rome","far":true,"at":{"x":[null]}};get {"days":-1};)");
  expect_read(style,
              R"(<|tool_call_start|>[{"name": "get", "arguments": {"days": 1}}, )"
              R"({"name": "now", "arguments": {}, "id": "1"}]<|tool_call_end|>)",
              R"(||get {"days":1};now {};)");
}

TEST(SpelledReaders, LeaveWhatIsNoListOfLfm2) {
  const AnswerStyle style = offering_get(ToolDialect::lfm2);
  for (const char* inside : {"", "[]", "[get(]", "[get(city=Rome)]", "get", R"([{"name": 1}])",
                             R"([{"name": "get"}])", R"({"name": "get", "arguments": {}})"}) {
    expect_words(style, std::string("<|tool_call_start|>") + inside + "<|tool_call_end|>");
  }
  expect_words(style, "<|tool_call_start|>[get(city=\"Ro");
  expect_words(style, "A <|tool_ca");
}

TEST(SpelledReaders, ReadInvocationsOfMiniMax) {
  AnswerStyle style = offering_get(ToolDialect::minimax);
  style.reasons = style.begins_thinking = true;
  expect_read(style,
              "I look.\n</think>\n\nOne moment.\n<minimax:tool_call>\n<invoke name=\"get\">\n"
              "<parameter name=\"city\">12</parameter>\n<parameter name=\"days\">2</parameter>\n"
              "<parameter name=\"x\">[\"<b>\"]</parameter>\n</invoke>\n<invoke name=\"now\">\n"
              "</invoke>\n</minimax:tool_call>",
              R"(I look.|One moment.|get {"city":"12","days":2,"x":["<b>"]};now {};)");
  expect_read(style, "I look.\n<minimax:tool_call><invoke name=\"now\"></invoke>",
              "I look.||now {};");
  style.reasons = style.begins_thinking = false;
  expect_read(style,
              "<minimax:tool_call>\n{\"name\": \"get\", \"arguments\": {\"days\": 1}}\n"
              "</minimax:tool_call>\n<minimax:tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
              "</minimax:tool_call>",
              R"(||get {"days":1};now {};)");
}

TEST(SpelledReaders, LeaveWhatIsNoInvocation) {
  const AnswerStyle style = offering_get(ToolDialect::minimax);
  for (const char* inside :
       {"", "get", "<invoke name=\"\"></invoke>", "<invoke name=\"get>\n</invoke>",
        "<invoke name=\"get\">", "<invoke name=\"get\"><parameter name=\"city\">a</invoke>",
        "<invoke name=\"get\"></invoke> so"}) {
    expect_words(style, std::string("<minimax:tool_call>") + inside + "</minimax:tool_call>");
  }
  expect_words(style, "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"city\">Ro");
}

TEST(SpelledReaders, ReadListsOfHunyuan) {
  AnswerStyle style = offering_get(ToolDialect::tool_calls);
  style.reasons = true;
  style.said_tags = SaidTags::answer;
  expect_read(style,
              "<think>\nI look.\n</think>\n<answer>\nSo: <tool_calls>[{\"name\": \"get\", "
              "\"arguments\": {\"days\": 2}}, {\"name\": \"now\", \"arguments\": {}}]</tool_calls>"
              "\n</answer>",
              R"(I look.|So:|get {"days": 2};now {};)");
  expect_words(style, "<tool_calls>[1, 2]");
}

TEST(SpelledReaders, ReadCallsOfHunyuanBetweenFences) {
  const AnswerStyle style = offering_get(ToolDialect::hunyuan);
  expect_read(style,
              "So:<tool_calls><tool_call>get\n```json\n{\"city\": \"```\"}\n```</tool_call>\n"
              "<tool_call>now\n```json\n{}\n```</tool_call></tool_calls>",
              R"(|So:|get {"city": "```"};now {};)");
  expect_read(style, "<tool_calls>\n<tool_call>{\"name\": \"get\", \"arguments\": {\"days\": 1}}",
              R"(||get {"days":1};)");
  for (const char* inside :
       {"", "get", "get\n```json\n```", "get\n```json\n[1]\n```", "get\n```json\n{\"a\": }\n```",
        "get it\n```json\n{}\n```", "\n```json\n{}\n```"}) {
    expect_words(style, std::string("<tool_call>") + inside + "</tool_call>");
  }
}

TEST(SpelledReaders, ReadPairsOfHunyuan) {
  expect_read(offering_get(ToolDialect::hunyuan),
              "<tool_calls>\n<tool_call>get<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>12"
              "</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
              "<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>",
              R"(||get {"city":"12","days":2};now {};)");
  AnswerStyle style = offering_get(ToolDialect::hunyuan_open);
  style.thoughts = ThoughtMarks::hunyuan;
  style.reasons = style.begins_thinking = true;
  expect_read(style,
              "I look.</think:opensource>So:<tool_calls:opensource>\n<tool_call:opensource>get"
              "<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n"
              "<arg_value:opensource>```</arg_value:opensource>\n</tool_call:opensource>\n"
              "<tool_call:opensource>now<tool_sep:opensource>\n{\"x\": 1}\n"
              "</tool_call:opensource>\n</tool_calls:opensource>",
              R"(I look.|So:|get {"city":"```"};now {"x": 1};)");
  style.reasons = style.begins_thinking = false;
  for (const char* inside :
       {"", "get", "<tool_sep:opensource>", "get<tool_sep:opensource>so",
        "get<tool_sep:opensource>{\"a\": }",
        "get<tool_sep:opensource><arg_key:opensource>a</arg_key:opensource>b"}) {
    expect_words(style, std::string("<tool_call:opensource>") + inside + "</tool_call:opensource>");
  }
}

TEST(SpelledReaders, ReadListsOfApertus) {
  AnswerStyle style = offering_get(ToolDialect::apertus);
  style.thoughts = ThoughtMarks::apertus;
  style.reasons = true;
  expect_read(style,
              "<|inner_prefix|>I look.<|inner_suffix|>So: <|tools_prefix|>[{\"get\": {\"days\": 2, "
              "\"x\": {\"y\": [1]}}}, {\"now\": {}}, {\"at\": null}]<|tools_suffix|>",
              R"(I look.|So:|get {"days": 2, "x": {"y": [1]}};now {};at {};)");
  expect_read(style, "<|inner_prefix|>I look.<|tools_prefix|>[{\"now\": {}}]<|tools_suffix|>",
              "I look.||now {};");
  expect_words(style, "<|tools_prefix|>[{\"name\": \"get\", \"arguments\": {}}]");
  expect_words(style, "<|tools_prefix|>[{}]");
  expect_words(style, "<|tools_prefix|>[{\"\": {}}]");
}

TEST(SpelledReaders, TellArgumentsOfApertusAsTheyCome) {
  const auto reader = make_reader({.dialect = ToolDialect::apertus});
  AnswerReader::Parts parts;
  reader->read("<|tools_prefix|>[{\"get\": {\"city\": \"Ro", parts);
  const AnswerReader::Parts expected = {{AnswerPart::Kind::call, "get"},
                                        {AnswerPart::Kind::arguments, "{\"city\": \"Ro"}};
  EXPECT_EQ(parts, expected);
}

}  // namespace
}  // namespace talon::spelled_readers_test
