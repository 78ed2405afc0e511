#include <gtest/gtest.h>

#include "serve/tools/answer_style.h"
#include "serve/tools/mark_search.h"

namespace talon::readers_test {
namespace {

using Kind = AnswerPart::Kind;
using Parts = AnswerReader::Parts;

struct Recorded {
  const char* name;
  AnswerStyle style;
  std::string text;
  Parts parts;
};
void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.name; }

AnswerStyle of(ToolDialect dialect, bool reasons = false, bool begins_thinking = false) {
  return {dialect, reasons, begins_thinking};
}

/// Of a request that offers tools of these names.
AnswerStyle offering(ToolDialect dialect, std::vector<std::string> tools) {
  AnswerStyle style = of(dialect);
  style.tools = std::move(tools);
  return style;
}

const char* const kSchema =
    R"({"properties": {"city": {"type": "string"}, "days": {"type": "integer"},
    "far": {"type": "boolean"}, "at": {"type": ["object", "null"]}, "code": {"type": "string"},
    "list": {"anyOf": [{"type": "array"}, {"type": "string"}]}}})";

/// Of a request that offers `get` with that schema.
AnswerStyle with_schema(bool reasons = false) {
  AnswerStyle style = of(ToolDialect::hermes, reasons);
  style.schemas["get"] = OrderedJson::parse(kSchema);
  return style;
}

AnswerStyle gemma4(bool reasons) {
  AnswerStyle style = of(ToolDialect::gemma4, reasons);
  style.thoughts = ThoughtMarks::channel;
  return style;
}

AnswerStyle seed(bool reasons) {
  AnswerStyle style = of(ToolDialect::seed, reasons);
  style.thoughts = ThoughtMarks::seed;
  style.schemas["get"] = OrderedJson::parse(kSchema);
  return style;
}

AnswerStyle thinking(ToolDialect dialect, ThoughtMarks thoughts) {
  AnswerStyle style = of(dialect, true);
  style.thoughts = thoughts;
  return style;
}

/// Of a request that takes one call.
AnswerStyle alone(AnswerStyle style) {
  style.parallel = false;
  return style;
}

const std::string kTooDeep = R"({"name": "get", "arguments": {"days": )" + std::string(70, '[') +
                             std::string(70, ']') + "}}";

/// What models of each family write, by their templates.
const Recorded kRecorded[] = {
    {"mistralCallAfterAThought",
     thinking(ToolDialect::mistral, ThoughtMarks::mistral),
     R"([THINK]I look.[/THINK][TOOL_CALLS]get[ARGS]{"x": 1})",
     {{Kind::reasoning, "I look."}, {Kind::call, "get"}, {Kind::arguments, R"({"x": 1})"}}},
    {"seedCallAfterAThought",
     seed(true),
     "<seed:think>\nI look.\n</seed:think>\nOne moment.\n<seed:tool_call>\n<function=get>\n"
     "<parameter=city>Oslo</parameter>\n<parameter=days>2</parameter>\n</function>\n"
     "</seed:tool_call>",
     {{Kind::reasoning, "I look."},
      {Kind::content, "One moment."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"city":"Oslo","days":2})"}}},
    {"seedAnObject",
     seed(false),
     "<seed:tool_call>\n{\"name\": \"get\", \"arguments\": {\"days\": 1}}\n</seed:tool_call>",
     {{Kind::call, "get"}, {Kind::arguments, R"({"days":1})"}}},
    {"seedAnObjectWithoutArguments",
     seed(false),
     "<seed:tool_call>{\"name\": \"get\", \"arguments\": null}</seed:tool_call>",
     {{Kind::call, "get"}, {Kind::arguments, "{}"}}},
    {"seedAnObjectTooDeep",
     seed(false),
     "<seed:tool_call>" + kTooDeep + "</seed:tool_call>",
     {{Kind::content, "<seed:tool_call>" + kTooDeep + "</seed:tool_call>"}}},
    {"seedNoCall",
     seed(false),
     "<seed:tool_call>no</seed:tool_call>",
     {{Kind::content, "<seed:tool_call>no</seed:tool_call>"}}},
    {"hermesOneCall",
     of(ToolDialect::hermes),
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\", \"days\": 2}}\n"
     "</tool_call>",
     {{Kind::call, "get_weather"}, {Kind::arguments, R"({"city": "Köln", "days": 2})"}}},
    {"hermesTextAndTwoCalls",
     of(ToolDialect::hermes),
     "Let me look. \n\n<tool_call>\n{\"name\": \"a\", \"arguments\": "
     "{}}\n</tool_call>\n<tool_call>\n"
     "{\"arguments\": {\"x\": [1, {\"y\": \"}]\\\"\"}]}, \"name\": \"b\"}\n</tool_call>\n",
     {{Kind::content, "Let me look."},
      {Kind::call, "a"},
      {Kind::arguments, "{}"},
      {Kind::call, "b"},
      {Kind::arguments, R"({"x": [1, {"y": "}]\""}]})"}}},
    {"hermesOneCallOfThree",
     alone(of(ToolDialect::hermes, true)),
     "<think>\nhm\n</think>\n\nWell. <tool_call>{\"name\": \"a\", \"arguments\": {\"x\": 1}}"
     "</tool_call>\n<tool_call>{\"name\": \"b\", \"arguments\": {\"x\": 2}}</tool_call>So. "
     "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>",
     {{Kind::reasoning, "hm"},
      {Kind::content, "Well."},
      {Kind::call, "a"},
      {Kind::arguments, R"({"x": 1})"},
      {Kind::content, "So."}}},
    {"hermesArgumentsInAText",
     of(ToolDialect::hermes),
     R"(<tool_call>{"name":"a","arguments":"{\"x\": 1}"}</tool_call>)",
     {{Kind::call, "a"}, {Kind::arguments, R"({"x": 1})"}}},
    {"hermesArgumentsThatAreNoObject",
     of(ToolDialect::hermes),
     R"(<tool_call>{"name":"a","arguments":null}</tool_call><tool_call>{"arguments":"","name":"b"}
        </tool_call><tool_call>{"name":"c","arguments":[{}]}</tool_call>)",
     {{Kind::call, "a"},
      {Kind::arguments, "{}"},
      {Kind::call, "b"},
      {Kind::arguments, "{}"},
      {Kind::call, "c"},
      {Kind::arguments, "{}"}}},
    {"hermesNoArguments",
     of(ToolDialect::hermes),
     R"(<tool_call>{"name": "now"}</tool_call>)",
     {{Kind::call, "now"}, {Kind::arguments, "{}"}}},
    {"hermesCutInTheArguments",
     of(ToolDialect::hermes),
     R"(<tool_call>{"name": "a", "arguments": {"x": "lo)",
     {{Kind::call, "a"}, {Kind::arguments, R"({"x": "lo)"}}},
    {"hermesNoCallAtAll",
     of(ToolDialect::hermes),
     "Tags look like <tool_call> and <tool are text. ",
     {{Kind::content, "Tags look like <tool_call> and <tool are text. "}}},
    {"hermesWithThoughts",
     of(ToolDialect::hermes, true),
     "<think>\nThe city is <b>. </thin\n</think>\n\nSure.\n<tool_call>\n{\"name\": \"a\", "
     "\"arguments\": {}}\n</tool_call>",
     {{Kind::reasoning, "The city is <b>. </thin"},
      {Kind::content, "Sure."},
      {Kind::call, "a"},
      {Kind::arguments, "{}"}}},
    {"thoughtThatThePromptBegan",
     of(ToolDialect::none, true, true),
     "It is late.\n</think>\n\nGood night",
     {{Kind::reasoning, "It is late."}, {Kind::content, "Good night"}}},
    {"thoughtThatWasCut",
     of(ToolDialect::none, true),
     "<think>one\ntwo ",
     {{Kind::reasoning, "one\ntwo "}}},
    {"noThought", of(ToolDialect::none, true), "a < b", {{Kind::content, "a < b"}}},
    {"qwenTagsTypedByTheSchema",
     with_schema(true),
     "<think>\nhm\n</think>\n\nI look.\n\n<tool_call>\n<function=get>\n<parameter=city>\n12\n"
     "</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=far>\nTrue\n</parameter>\n"
     "<parameter=at>\n{\"x\": [1, null]}\n</parameter>\n<parameter=code>\n\nif a < b:\n  \"c\"\n"
     "</parameter>\n<parameter=other>\n1.5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
     "<function=now>\n</function>\n</tool_call>",
     {{Kind::reasoning, "hm"},
      {Kind::content, "I look."},
      {Kind::call, "get"},
      {Kind::arguments,
       R"({"city":"12","days":3,"far":true,"at":{"x":[1,null]},"code":"\nif a < b:\n  \"c\"","other":1.5})"},
      {Kind::call, "now"},
      {Kind::arguments, "{}"}}},
    {"qwenTagsThatWereCut",
     with_schema(),
     "<tool_call>\n<function=get>\n<parameter=city>\nRo",
     {{Kind::content, "<tool_call>\n<function=get>\n<parameter=city>\nRo"}}},
    {"glmPairs",
     with_schema(),
     "Well.\n<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>at"
     "</arg_key>\n<arg_value>null</arg_value>\n<arg_key>list</arg_key>\n<arg_value>[1, \"a\"]"
     "</arg_value>\n</tool_call>\n<tool_call>get</tool_call>",
     {{Kind::content, "Well."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"city":"Rome","at":null,"list":[1,"a"]})"},
      {Kind::call, "get"},
      {Kind::arguments, "{}"}}},
    {"glmNameOfNoTool",
     with_schema(),
     "<tool_call>foo</tool_call> is a tag, <tool_call>bar",
     {{Kind::content, "<tool_call>foo</tool_call> is a tag, <tool_call>bar"}}},
    {"gemma4ThoughtAndCalls",
     gemma4(true),
     "<|channel>thought\nIs it <b>?\n<channel|>I look.<|tool_call>call:get{city:<|\"|>Köln, "
     "{a}<|\"|>,"
     "n:None,t:true,x:-2.5,y:[<|\"|>a<|\"|>,{<|\"|>k:<|\"|>:{}}]}<tool_call|><|tool_call>call:now{}"
     "<tool_call|>",
     {{Kind::reasoning, "Is it <b>?"},
      {Kind::content, "I look."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"city":"Köln, {a}","n":null,"t":true,"x":-2.5,"y":["a",{"k:":{}}]})"},
      {Kind::call, "now"},
      {Kind::arguments, "{}"}}},
    {"gemma4Spaces",
     gemma4(false),
     "<|tool_call> call:get { city: <|\"|>Oslo, NO<|\"|> , b : 1 , <|\"|>c<|\"|> :[ null , {} ] } "
     "<tool_call|>",
     {{Kind::call, "get"}, {Kind::arguments, R"({"city":"Oslo, NO","b":1,"c":[null,{}]})"}}},
    {"gemma4Text", gemma4(true), "A <| and {b}.", {{Kind::content, "A <| and {b}."}}},
    {"gemma4Cut",
     gemma4(false),
     "<|tool_call>call:get{city:<|\"|>Ro",
     {{Kind::content, "<|tool_call>call:get{city:<|\"|>Ro"}}},
    {"deepseekFences",
     of(ToolDialect::deepseek, true),
     "<think>\nhm\n</"
     "think>\n\nSo:<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n"
     "```json\n{\"a\": "
     "\"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n"
     "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {{Kind::reasoning, "hm"},
      {Kind::content, "So:"},
      {Kind::call, "get"},
      {Kind::arguments, R"({"a": "```"})"},
      {Kind::call, "now"},
      {Kind::arguments, "{}"}}},
    {"deepseekNames",
     of(ToolDialect::deepseek),
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>x<｜tool▁sep｜>[1]<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {{Kind::call, "get"},
      {Kind::arguments, R"({"a": 1})"},
      {Kind::content, "<｜tool▁call▁begin｜>x<｜tool▁sep｜>[1]<｜tool▁call▁end｜>"}}},
    {"cohereActions",
     thinking(ToolDialect::cohere, ThoughtMarks::cohere),
     "<|START_THINKING|>I look. <|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"get\", \"parameters\": {\"a\": 1}},\n    {\"tool_call_id\": \"1\", "
     "\"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
     {{Kind::reasoning, "I look."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"a": 1})"},
      {Kind::call, "now"},
      {Kind::arguments, "{}"}}},
    {"cohereResponse",
     thinking(ToolDialect::cohere, ThoughtMarks::cohere),
     "<|START_RESPONSE|>Hello < you.<|END_RESPONSE|>",
     {{Kind::content, "Hello < you."}}},
    {"graniteList",
     of(ToolDialect::granite),
     "Well <|tool_call|>[{\"name\": \"a\", \"arguments\": {\"x\": 1}}, {\"name\": \"b\", "
     "\"arguments\": {}}]<|/tool_call|>",
     {{Kind::content, "Well"},
      {Kind::call, "a"},
      {Kind::arguments, R"({"x": 1})"},
      {Kind::call, "b"},
      {Kind::arguments, "{}"}}},
    {"kimiCalls",
     of(ToolDialect::kimi),
     "Well. <|tool_calls_section_begin|><|tool_call_begin|>functions.get:0"
     "<|tool_call_argument_begin|>{\"a\": \"x:y\"}<|tool_call_end|><|tool_call_begin|>\n"
     "functions.now:1<|tool_call_argument_begin|> {} <|tool_call_end|><|tool_calls_section_end|>",
     {{Kind::content, "Well."},
      {Kind::call, "get"},
      {Kind::arguments, R"({"a": "x:y"})"},
      {Kind::call, "now"},
      {Kind::arguments, "{}"}}},
    {"kimiNoCall",
     of(ToolDialect::kimi),
     "<|tool_call_begin|>functions.get:0<|tool_call_end|>",
     {{Kind::content, "<|tool_call_begin|>functions.get:0<|tool_call_end|>"}}},
    {"nemotronList",
     of(ToolDialect::nemotron),
     "<TOOLCALL>[{\"name\": \"a\", \"arguments\": {\"x\": 1}}, {\"name\": \"b\", "
     "\"arguments\": {}}]</TOOLCALL>",
     {{Kind::call, "a"},
      {Kind::arguments, R"({"x": 1})"},
      {Kind::call, "b"},
      {Kind::arguments, "{}"}}},
    {"llama3Call",
     offering(ToolDialect::llama3, {"sub", "add"}),
     R"({"type": "function", "name": "add", "parameters": {"a": "1", "b": -2.5e3}})",
     {{Kind::call, "add"}, {Kind::arguments, R"({"a": "1", "b": -2.5e3})"}}},
    {"llama3TagAndTwoCalls",
     of(ToolDialect::llama3),
     R"(<|python_tag|>{"name": "a", "parameters": {}}; {"name": "b", "parameters": {"n": null}})",
     {{Kind::call, "a"},
      {Kind::arguments, "{}"},
      {Kind::call, "b"},
      {Kind::arguments, R"({"n": null})"}}},
    {"llama4CallsBetweenMarks",
     of(ToolDialect::llama3),
     R"(<|python_start|>{"name": "a", "parameters": {}}{"name": "b"}<|python_end|>)",
     {{Kind::call, "a"}, {Kind::arguments, "{}"}, {Kind::call, "b"}, {Kind::arguments, "{}"}}},
    {"llama4CallBehindWords",
     of(ToolDialect::llama3),
     R"(<|python_start|>I look.<|python_end|>{"name": "a", "parameters": {"x": 1}})",
     {{Kind::content, "I look."}, {Kind::call, "a"}, {Kind::arguments, R"({"x": 1})"}}},
    {"llama3CallsWithoutTag",
     offering(ToolDialect::llama3, {"a", "b"}),
     R"({"parameters": {}, "name": "a"}; {"name": "b", "parameters": "{}"})",
     {{Kind::call, "a"}, {Kind::arguments, "{}"}, {Kind::call, "b"}, {Kind::arguments, "{}"}}},
    {"llama3ObjectWithTheNameOfNoTool",
     offering(ToolDialect::llama3, {"get_weather"}),
     R"({"name": "Alice", "age": 30, "parameters": {"x": 1}})",
     {{Kind::content, R"({"name": "Alice", "age": 30, "parameters": {"x": 1}})"}}},
    {"llama3Json",
     of(ToolDialect::llama3),
     R"({"colour": {"name": "red"}} is JSON)",
     {{Kind::content, R"({"colour": {"name": "red"}} is JSON)"}}},
    {"llama3Text", of(ToolDialect::llama3), "No {call}.", {{Kind::content, "No {call}."}}},
    {"mistralList",
     of(ToolDialect::mistral),
     R"([TOOL_CALLS] [{"name": "a", "arguments": {"x": "]"}}, {"name": "b", "arguments": {}}])",
     {{Kind::call, "a"},
      {Kind::arguments, R"({"x": "]"})"},
      {Kind::call, "b"},
      {Kind::arguments, "{}"}}},
    {"mistralNames",
     of(ToolDialect::mistral),
     R"(Well [TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b[CALL_ID]123456789[ARGS]{})",
     {{Kind::content, "Well"},
      {Kind::call, "a"},
      {Kind::arguments, R"({"x": 1})"},
      {Kind::call, "b"},
      {Kind::arguments, "{}"}}},
    {"mistralOneCallOfTwo",
     alone(of(ToolDialect::mistral)),
     R"([TOOL_CALLS] [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {"y": 2}}])",
     {{Kind::call, "a"}, {Kind::arguments, R"({"x": 1})"}}},
    {"mistralMarkBeforeText",
     of(ToolDialect::mistral),
     "Well [TOOL_CALLS] some more {text} ",
     {{Kind::content, "Well [TOOL_CALLS] some more {text} "}}},
    {"mistralMarkAlone",
     of(ToolDialect::mistral),
     "Well [TOOL_CALLS] garbage",
     {{Kind::content, "Well [TOOL_CALLS] garbage"}}},
    {"mistralListOfNoCalls",
     of(ToolDialect::mistral),
     R"([TOOL_CALLS] [{"x": 1}, 2])",
     {{Kind::content, R"([TOOL_CALLS] [{"x": 1}, 2])"}}},
    {"mistralCutBeforeTheName",
     of(ToolDialect::mistral),
     R"([TOOL_CALLS][{"na)",
     {{Kind::content, R"([TOOL_CALLS][{"na)"}}},
    {"mistralText", of(ToolDialect::mistral), "[TOOL] x", {{Kind::content, "[TOOL] x"}}},
    {"harmonyAll",
     of(ToolDialect::harmony),
     "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
     {{Kind::reasoning, "Need it."},
      {Kind::call, "get_weather"},
      {Kind::arguments, R"({"city":"Rome"})"}}},
    {"harmonyRecipientFirst",
     of(ToolDialect::harmony),
     " to=functions.now<|channel|>commentary json<|message|>{}",
     {{Kind::call, "now"}, {Kind::arguments, "{}"}}},
    {"harmonyNoMarks", of(ToolDialect::harmony), "Hello", {{Kind::content, "Hello"}}},
    {"harmonyFinal",
     of(ToolDialect::harmony),
     "<|channel|>final<|message|>Hello < you<|return|>",
     {{Kind::content, "Hello < you"}}},
    {"harmonyContinued",
     {ToolDialect::harmony, false, false, true},
     " you<|end|><|start|>assistant<|channel|>final<|message|>!<|return|>",
     {{Kind::content, " you!"}}},
    {"functiongemmaCalls",
     of(ToolDialect::functiongemma),
     "<start_function_call>call:set{on:true,name:<escape>a, {b}<escape>,at:{x:1,y:[2,<escape>c"
     "<escape>]}}<end_function_call><start_function_call>call:off{}<end_function_call>",
     {{Kind::call, "set"},
      {Kind::arguments, R"({"on":true,"name":"a, {b}","at":{"x":1,"y":[2,"c"]}})"},
      {Kind::call, "off"},
      {Kind::arguments, "{}"}}},
    {"functiongemmaJson",
     of(ToolDialect::functiongemma),
     "<start_function_call>call:set{\"name\": \"a, {b}\", \"at\": [1]}<end_function_call>",
     {{Kind::call, "set"}, {Kind::arguments, R"({"name": "a, {b}", "at": [1]})"}}},
    {"functiongemmaCut",
     of(ToolDialect::functiongemma),
     "<start_function_call>call:set{on:[",
     {{Kind::content, "<start_function_call>call:set{on:["}}},
    {"functiongemmaBroken",
     of(ToolDialect::functiongemma),
     "<start_function_call>call:set{on:<end_function_call>",
     {{Kind::content, "<start_function_call>call:set{on:<end_function_call>"}}},
};

/// Neighbours of a kind as one.
Parts normal(const Parts& parts) {
  Parts merged;
  for (const AnswerPart& part : parts) tell(merged, part.kind, part.text);
  return merged;
}

Parts read(const AnswerStyle& style, const std::vector<std::string_view>& pieces) {
  const auto reader = make_reader(style);
  Parts parts;
  for (const std::string_view piece : pieces) {
    Parts news;  // as in a stream, where each piece is told
    reader->read(piece, news);
    parts.insert(parts.end(), news.begin(), news.end());
  }
  reader->finish(parts);
  return normal(parts);
}

class Readers : public testing::TestWithParam<Recorded> {};
INSTANTIATE_TEST_SUITE_P(Of, Readers, testing::ValuesIn(kRecorded),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Readers, TakeAnAnswerApart) {
  EXPECT_EQ(read(GetParam().style, {GetParam().text}), normal(GetParam().parts));
}

TEST_P(Readers, FindTheSameAtEverySplitOfTheText) {
  const std::string_view text = GetParam().text;
  const Parts expected = normal(GetParam().parts);
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      const std::vector<std::string_view> pieces = {
          text.substr(0, first), text.substr(first, second - first), text.substr(second)};
      ASSERT_EQ(read(GetParam().style, pieces), expected) << first << " " << second;
    }
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(read(GetParam().style, bytes), expected);
}

TEST(Readers, TellArgumentsAsTheyCome) {
  const auto reader = make_reader(of(ToolDialect::hermes));
  Parts parts;
  reader->read(R"(<tool_call>{"name": "a", "arguments": {"x": "be)", parts);
  const Parts expected = {{Kind::call, "a"}, {Kind::arguments, R"({"x": "be)"}};
  EXPECT_EQ(parts, expected);
}

}  // namespace
}  // namespace talon::readers_test
