#include <gtest/gtest.h>

#include <fstream>

#include "io/test_files.h"
#include "serve/api/api_error.h"
#include "serve/tools/tool_use.h"

namespace talon::answer_grammar_test {
namespace {

using Kind = GrammarText::Kind;

constexpr const char* kThought = "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant";
constexpr const char* kFinal = "<|channel|>final<|message|>";
constexpr const char* kSchemaOfA =
    R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false})";

/// One that has the marks of harmony, and of a thought, as special tokens.
Tokenizer tokenizer_with_marks() {
  std::ifstream file(TALON_TEST_DATA "/text/byte_level/tokenizer.json");
  Json json = Json::parse(file);
  for (const char* mark :
       {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>",
        "<|return|>", "<think>", "</think>", "<|tool_call>", "<tool_call|>"}) {
    Json token = json["added_tokens"][0];
    token["id"] = json["added_tokens"].back()["id"].get<int>() + 1;
    token["content"] = mark;
    json["added_tokens"].push_back(std::move(token));
  }
  const test::TemporaryFolder folder;
  return Tokenizer::from_json_file(folder.add("tokenizer.json", json.dump()));
}

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer = tokenizer_with_marks();
  return tokenizer;
}

ToolUse one_tool(bool strict = false) {
  ToolUse use;
  use.choice = ToolUse::Choice::automatic;
  use.tools = {{"get", "", OrderedJson::parse(kSchemaOfA), strict}};
  use.chosen = use.tools;
  return use;
}

AnswerStyle harmony(bool continues = false) {
  AnswerStyle style;
  style.dialect = ToolDialect::harmony;
  style.continues = continues;
  return style;
}

/// How far a text is an answer.
enum class Taken { refused, begun, whole };

Taken taken(const std::optional<GrammarText>& grammar, const std::string& text) {
  if (!grammar) return Taken::refused;
  const std::vector<TokenId> ends = tokenizer().encode("<|return|>");
  const GrammarCompiler compiler(tokenizer(), tokenizer().vocabulary_size());
  const auto state = compiler.compile(*grammar)->start(ends);
  std::vector<TokenId> tokens;
  for (const TokenId token : tokenizer().encode(text)) {
    if (!state->allows({tokens, {}}, token)) return Taken::refused;
    tokens.push_back(token);
  }
  return state->is_complete({tokens, {}}) ? Taken::whole : Taken::begun;
}

/// Whether an answer may be that text and no more.
bool may_end(const std::optional<GrammarText>& grammar, const std::string& text) {
  if (taken(grammar, text) == Taken::refused) return false;
  const std::vector<TokenId> ends = tokenizer().encode("<|return|>");
  const GrammarCompiler compiler(tokenizer(), tokenizer().vocabulary_size());
  const std::vector<TokenId> tokens = tokenizer().encode(text);
  return compiler.compile(*grammar)->start(ends)->allows({tokens, {}}, ends[0]);
}

ReadAnswer read_whole(const AnswerStyle& style, const std::string& text) {
  const auto reader = make_reader(style);
  AnswerReader::Parts parts;
  reader->read(text, parts);
  reader->finish(parts);
  return joined(parts);
}

struct Form {
  GrammarText grammar;
  const char* text;
};
const Form kForms[] = {{{Kind::json_schema, kSchemaOfA}, R"({"a": 1})"},
                       {{Kind::regex, "[ab]{3}"}, "aba"},
                       {{Kind::lark, "start: \"x\" \"y\""}, "xy"},
                       {{Kind::gbnf, "root ::= \"ab\" [c]"}, "abc"},
                       {{Kind::choice, R"(["yes", "no"])"}, "yes"}};

void expect_final(const std::optional<GrammarText>& grammar, const std::string& text) {
  EXPECT_EQ(taken(grammar, text), Taken::refused) << text;
  EXPECT_EQ(taken(grammar, kThought + text), Taken::refused) << text;
  for (const std::string& lead : {std::string(kFinal), std::string(kThought) + kFinal}) {
    EXPECT_EQ(taken(grammar, lead), Taken::begun) << lead;
    EXPECT_EQ(taken(grammar, lead + text), Taken::whole) << lead << text;
    EXPECT_EQ(taken(grammar, lead + "?"), Taken::refused) << lead;
    EXPECT_EQ(read_whole(harmony(), lead + text).content, text);
  }
  EXPECT_EQ(read_whole(harmony(), kThought + (kFinal + text)).reasoning, "I look.");
}

TEST(AnswerGrammar, OfHarmonyIsOfItsFinalMessage) {
  for (const Form& form : kForms) {
    expect_final(answer_grammar({}, harmony(), tokenizer(), form.grammar), form.text);
  }
}

TEST(AnswerGrammar, OfHarmonyIsOfACallOrItsFinalMessage) {
  const auto grammar = answer_grammar(one_tool(), harmony(), tokenizer(), kForms[0].grammar);
  expect_final(grammar, kForms[0].text);
  const std::string call =
      R"(<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"b": 2})";
  EXPECT_EQ(taken(grammar, call), Taken::whole);
  EXPECT_EQ(taken(grammar, kThought + call), Taken::whole);
  EXPECT_EQ(read_whole(harmony(), kThought + call).calls[0].arguments, R"({"b": 2})");
}

TEST(AnswerGrammar, OfHarmonyLeavesAMessageThatIsGoneOnFromAndAGrammarThatHasItsMarks) {
  for (const Form& form : kForms) {
    const auto grammar = answer_grammar({}, harmony(true), tokenizer(), form.grammar);
    EXPECT_EQ(taken(grammar, form.text), Taken::whole) << form.text;
  }
  const GrammarText own = {Kind::lark, "start: <|channel|> \"final\" <|message|> \"a\""};
  const auto grammar = answer_grammar({}, harmony(), tokenizer(), own);
  EXPECT_EQ(taken(grammar, std::string(kFinal) + "a"), Taken::whole);
}

TEST(AnswerGrammar, OfAMistralModelThatThinksIsOfWhatItSaysThen) {
  AnswerStyle style;
  style.dialect = ToolDialect::mistral;
  style.thoughts = ThoughtMarks::mistral;
  style.reasons = true;
  const std::string thought = "[THINK]I look.[/THINK]";
  for (const Form& form : kForms) {
    const auto grammar = answer_grammar({}, style, tokenizer(), form.grammar);
    EXPECT_EQ(taken(grammar, thought), Taken::begun) << form.text;
    for (const std::string& lead : {std::string(), thought, thought + "\n"}) {
      EXPECT_EQ(taken(grammar, lead + form.text), Taken::whole) << lead << form.text;
      EXPECT_EQ(read_whole(style, lead + form.text).content, form.text);
    }
    EXPECT_EQ(taken(grammar, thought + "?"), Taken::refused) << form.text;
  }
}

TEST(AnswerGrammar, OfAModelWhoseThoughtsAreBetweenTokensHasThese) {
  AnswerStyle style;
  style.reasons = true;
  for (const Form& form : kForms) {
    const std::string text = form.text;
    const auto grammar = answer_grammar({}, style, tokenizer(), form.grammar);
    EXPECT_EQ(taken(grammar, text), Taken::whole) << text;
    EXPECT_EQ(taken(grammar, "<think>I look.</think>\n\n" + text), Taken::whole) << text;
  }
  style.begins_thinking = true;
  const auto begun = answer_grammar({}, style, tokenizer(), kForms[0].grammar);
  EXPECT_EQ(taken(begun, "I look.</think>"), Taken::begun);
  EXPECT_EQ(taken(begun, std::string("I look.</think>") + kForms[0].text), Taken::whole);
}

/// The reader would take such a call for one.
TEST(AnswerGrammar, OfCallsHasNoneInAThought) {
  const std::string object = R"({"name": "get", "arguments": {"a": 1}})";
  ToolUse use = one_tool();
  use.choice = ToolUse::Choice::required;
  use.parallel = false;
  AnswerStyle style;
  style.dialect = ToolDialect::hermes;
  style.reasons = style.begins_thinking = true;
  const auto tags = answer_grammar(use, style, tokenizer(), {});
  EXPECT_EQ(taken(tags, "I look.</think>\n\n<tool_call>\n" + object + "\n</tool_call>"),
            Taken::whole);
  EXPECT_EQ(taken(tags, "I look.\n<tool_call"), Taken::begun);
  EXPECT_EQ(taken(tags, "I look.\n<tool_call>"), Taken::refused);

  style.dialect = ToolDialect::mistral;
  style.thoughts = ThoughtMarks::mistral;
  style.begins_thinking = false;
  const auto list = answer_grammar(use, style, tokenizer(), {});
  EXPECT_EQ(taken(list, "[THINK]I look.[/THINK][TOOL_CALLS][" + object + "]"), Taken::whole);
  EXPECT_EQ(taken(list, "[THINK]I look.[TOOL_CALLS]"), Taken::refused);
  style.begins_thinking = true;
  const auto begun = answer_grammar(use, style, tokenizer(), {});
  EXPECT_EQ(taken(begun, "I look.[/THINK][TOOL_CALLS][" + object + "]"), Taken::whole);
  EXPECT_EQ(taken(begun, "[TOOL_CALLS]"), Taken::refused);
}

/// Whose prompt begins the thought, between marks that no other family has.
TEST(AnswerGrammar, OfCallsOfHunyuanFollowsAThoughtThatIsBegun) {
  ToolUse use = one_tool();
  use.choice = ToolUse::Choice::required;
  AnswerStyle style;
  style.dialect = ToolDialect::hunyuan_open;
  style.thoughts = ThoughtMarks::hunyuan;
  style.reasons = style.begins_thinking = true;
  const auto grammar = answer_grammar(use, style, tokenizer(), {});
  const std::string call =
      "<tool_call:opensource>get<tool_sep:opensource>\n{\"a\": 1}\n</tool_call:opensource>\n";
  const std::string two = "I look.</think:opensource><tool_calls:opensource>\n" + call + call +
                          "</tool_calls:opensource>";
  EXPECT_EQ(taken(grammar, two), Taken::whole);
  EXPECT_EQ(read_whole(style, two).calls.size(), 2U);
  EXPECT_EQ(read_whole(style, two).reasoning, "I look.");
  EXPECT_EQ(taken(grammar, "I look.<tool_calls:opensource>"), Taken::refused);
  EXPECT_EQ(taken(grammar, "I look.</think:opensource>So."), Taken::refused);
}

TEST(AnswerGrammar, OfStrictToolsHasNoOtherFormOfACall) {
  AnswerStyle style;
  style.dialect = ToolDialect::hermes;
  const auto grammar = answer_grammar(one_tool(/*strict=*/true), style, tokenizer(), {});
  const std::string object = R"({"name": "get", "arguments": {"a": 1}})";
  for (const char* space : {"", "\n"}) {
    const std::string begin = std::string("Hi. <tool_call>") + space;
    EXPECT_EQ(taken(grammar, begin + object + space + "</tool_call>"), Taken::begun) << begin;
    EXPECT_EQ(taken(grammar, begin + R"({"name": "get", "arguments": {"b")"), Taken::refused);
    EXPECT_EQ(taken(grammar, begin + "get\n<arg_key>a</arg_key>"), Taken::refused) << begin;
    EXPECT_EQ(taken(grammar, begin + "<function=get>"), Taken::refused) << begin;
  }
  EXPECT_EQ(taken(grammar, "A <tool_ca is no mark."), Taken::begun);
}

TEST(AnswerGrammar, OfStrictToolsHasOneCallWhereThereMayBeNoMore) {
  AnswerStyle style;
  style.dialect = ToolDialect::hermes;
  ToolUse use = one_tool(/*strict=*/true);
  const std::string call =
      "Hi.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  EXPECT_EQ(taken(answer_grammar(use, style, tokenizer(), {}), call + call), Taken::begun);
  use.parallel = false;
  const auto one = answer_grammar(use, style, tokenizer(), {});
  EXPECT_EQ(taken(one, call), Taken::begun);
  EXPECT_EQ(taken(one, call + " So."), Taken::begun);
  EXPECT_EQ(taken(one, call + call), Taken::refused);
}

/// A call whose arguments stand between two texts.
struct StrictCall {
  ToolDialect dialect;
  const char* begin;
  const char* end;
  const char* good = R"({"a": 1})";
  const char* bad = R"({"b")";
};
const StrictCall kStrictCalls[] = {
    {ToolDialect::hermes, "<tool_call>\n{\"name\": \"get\", \"arguments\": ", "}\n</tool_call>"},
    {ToolDialect::seed,
     "<seed:tool_call>{\"name\": \"get\", \"arguments\": ", "}</seed:tool_call>"},
    {ToolDialect::mistral, R"([TOOL_CALLS] [{"name": "get", "arguments": )", "}]"},
    {ToolDialect::granite, R"(<|tool_call|>[{"name": "get", "arguments": )", "}]"},
    {ToolDialect::nemotron, R"(<TOOLCALL>[{"name": "get", "arguments": )", "}]</TOOLCALL>"},
    {ToolDialect::cohere,
     R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get", "parameters": )",
     "}]<|END_ACTION|>"},
    {ToolDialect::deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>",
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ToolDialect::kimi,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>",
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {ToolDialect::functiongemma, "<start_function_call>call:get", "<end_function_call>"},
    {ToolDialect::gemma4, "<|tool_call>call:get", "<tool_call|>"},
    {ToolDialect::olmo, "<function_calls>\nget(", ")\n</function_calls>", "a=1", "b"},
    {ToolDialect::lfm2, "<|tool_call_start|>[get(", ")]<|tool_call_end|>", "a=1", "b"},
    {ToolDialect::minimax,
     "<minimax:tool_call>\n{\"name\": \"get\", \"arguments\": ", "}\n</minimax:tool_call>"},
    {ToolDialect::tool_calls, R"(<tool_calls>[{"name": "get", "arguments": )", "}]</tool_calls>"},
    {ToolDialect::hunyuan, "<tool_calls><tool_call>get\n```json\n",
     "\n```</tool_call></tool_calls>"},
    {ToolDialect::hunyuan_open,
     "<tool_calls:opensource>\n<tool_call:opensource>get<tool_sep:opensource>\n",
     "\n</tool_call:opensource>\n</tool_calls:opensource>"},
    {ToolDialect::apertus, R"(<|tools_prefix|>[{"get": )", "}]<|tools_suffix|>"}};

TEST(AnswerGrammar, OfStrictToolsBindsCallsOfEveryFamilyThatMarksThem) {
  for (const StrictCall& call : kStrictCalls) {
    AnswerStyle style;
    style.dialect = call.dialect;
    const auto grammar = answer_grammar(one_tool(/*strict=*/true), style, tokenizer(), {});
    const std::string begin = std::string("Hi. ") + call.begin;
    const std::string whole = begin + call.good + call.end;
    EXPECT_TRUE(may_end(grammar, "Hi {a} <b>.")) << call.begin;
    EXPECT_FALSE(may_end(grammar, begin)) << begin;
    EXPECT_EQ(taken(grammar, begin + call.bad), Taken::refused) << begin;
    EXPECT_EQ(taken(grammar, begin + "x"), Taken::refused) << begin;
    EXPECT_TRUE(may_end(grammar, whole)) << whole;
    EXPECT_TRUE(may_end(grammar, whole + call.begin + call.good + call.end)) << whole;
    const ReadAnswer answer = read_whole(style, whole);
    EXPECT_EQ(answer.content, "Hi.") << whole;
    ASSERT_EQ(answer.calls.size(), 1U) << whole;
    EXPECT_EQ(answer.calls[0].name, "get");
    EXPECT_EQ(Json::parse(answer.calls[0].arguments), Json({{"a", 1}})) << whole;
    EXPECT_FALSE(answer_grammar(one_tool(), style, tokenizer(), {})) << "it is not strict";
  }
}

TEST(AnswerGrammar, OfStrictToolsLeavesWhatTheModelThinks) {
  AnswerStyle style;
  style.reasons = true;
  const std::string thought = "<think>I look.</think>\n";
  for (const StrictCall& call : kStrictCalls) {
    style.dialect = call.dialect;
    const auto grammar = answer_grammar(one_tool(/*strict=*/true), style, tokenizer(), {});
    EXPECT_TRUE(may_end(grammar, thought + "Hi.")) << call.begin;
    for (const std::string& before : {thought, std::string("<think>I look.")}) {
      EXPECT_TRUE(may_end(grammar, before + call.begin + call.good + call.end)) << call.begin;
      EXPECT_EQ(taken(grammar, before + call.begin + call.bad), Taken::refused) << call.begin;
    }
  }
}

TEST(AnswerGrammar, OfStrictToolsBindsTheMessageOfHarmonyThatCalls) {
  const std::string call = "<|channel|>commentary to=functions.get <|constrain|>json<|message|>";
  const std::string next = "<|end|><|start|>assistant";
  const auto grammar = answer_grammar(one_tool(/*strict=*/true), harmony(), tokenizer(), {});
  const std::string said = "<|channel|>commentary<|message|>I look." + next;
  for (const std::string& lead : {std::string(), std::string(kThought), kThought + said}) {
    EXPECT_EQ(taken(grammar, lead + call + R"({"a": 1})"), Taken::whole) << lead;
    EXPECT_EQ(taken(grammar, lead + call + R"({"b")"), Taken::refused) << lead;
    EXPECT_TRUE(may_end(grammar, lead + kFinal + "Hi.")) << lead;
  }
  const auto continued = answer_grammar(one_tool(/*strict=*/true), harmony(true), tokenizer(), {});
  EXPECT_TRUE(may_end(continued, " you."));
  EXPECT_EQ(taken(continued, " you." + next + call + R"({"a": 1})"), Taken::whole);
  EXPECT_EQ(taken(continued, " you." + next + call + R"({"b")"), Taken::refused);
}

TEST(AnswerGrammar, OfStrictToolsBindsCallsOfLlamaWithAndWithoutAMark) {
  AnswerStyle style;
  style.dialect = ToolDialect::llama3;
  style.tools = {"get"};
  const auto grammar = answer_grammar(one_tool(/*strict=*/true), style, tokenizer(), {});
  for (const char* begin :
       {R"({"name": "get", "parameters": )", "\n\n{\"name\":\"get\",\"parameters\":",
        R"({"type": "function", "name": "get", "parameters": )",
        R"(<|python_tag|>{"name": "get", "parameters": )"}) {
    const std::string whole = std::string(begin) + R"({"a": 1}})";
    EXPECT_TRUE(may_end(grammar, whole)) << begin;
    EXPECT_TRUE(may_end(grammar, whole + "; " + R"({"name": "get", "parameters": {"a": 2}})"));
    EXPECT_EQ(read_whole(style, whole).calls.size(), 1U) << begin;
    EXPECT_EQ(taken(grammar, std::string(begin) + R"({"b")"), Taken::refused) << begin;
    EXPECT_EQ(taken(grammar, whole + " So."), Taken::refused) << begin;
  }
  for (const char* text : {"Hi {a}.", R"({"name": "Alice", "parameters": {"x": 1}})",
                           R"({"colour": {"name": "red"}})", R"({"name": "getter"})"}) {
    EXPECT_TRUE(may_end(grammar, text)) << text;
    EXPECT_TRUE(read_whole(style, text).calls.empty()) << text;
  }
  for (const char* text : {R"({"name": "get"})", R"({"x": 1, "name" : "get",)",
                           R"({"parameters": {"b": 2}, "name": "get"})", "<|python_tag|>x"}) {
    EXPECT_EQ(taken(grammar, text), Taken::refused) << text;
  }
}

TEST(AnswerGrammar, OfOlmoHasCallsAsPythonWritesThem) {
  AnswerStyle style;
  style.dialect = ToolDialect::olmo;
  ToolUse use = one_tool();
  use.choice = ToolUse::Choice::required;
  use.chosen[0].parameters = OrderedJson::parse(
      R"({"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"type": "string"}, "c": {"const": 1}},
          "required": ["b"], "$defs": {"n": {"type": "integer"}}})");
  const auto grammar = answer_grammar(use, style, tokenizer(), {});
  const auto calls = [](const std::string& inside) {
    return "<function_calls>" + inside + "</function_calls>";
  };
  for (const char* call :
       {R"(get(b="x"))", R"(get(a=1, b="x"))", R"(get(b="x", c=1))", R"(get(a=1, b="x", c=1))"}) {
    EXPECT_EQ(taken(grammar, calls(call)), Taken::whole) << call;
    EXPECT_EQ(read_whole(style, calls(call)).calls.size(), 1U) << call;
  }
  EXPECT_EQ(taken(grammar, calls("get(b=\"x\")\nget(b=\"y\")")), Taken::whole);
  for (const char* call : {"get()", "get(a=1)", "get(a=\"x\", b=\"x\")", "get(b=\"x\", a=1)",
                           "get(b=\"x\", c=2)", "set(b=\"x\")"}) {
    EXPECT_EQ(taken(grammar, calls(call)), Taken::refused) << call;
  }
  for (const char* schema : {R"({"type": "object"})", R"({"properties": [1]})"}) {
    use.chosen[0].parameters = OrderedJson::parse(schema);
    EXPECT_EQ(taken(answer_grammar(use, style, tokenizer(), {}), calls("get(x=1)")), Taken::whole);
  }
  use.chosen[0].parameters = {{"type", "object"}};
  const auto any = answer_grammar(use, style, tokenizer(), {});
  EXPECT_EQ(taken(any, calls("get()")), Taken::whole);
  EXPECT_EQ(taken(any, calls("get(x=[1], y=null)")), Taken::whole);
}

/// Schemas that are shared stand with each parameter, and rules within each other.
TEST(AnswerGrammar, OfOlmoIsBounded) {
  AnswerStyle style;
  style.dialect = ToolDialect::olmo;
  ToolUse use = one_tool(/*strict=*/true);
  use.choice = ToolUse::Choice::required;
  const auto with = [&](int parameters, std::size_t shared) {
    OrderedJson schema = {{"$defs", {{"n", {{"description", std::string(shared, 'x')}}}}}};
    for (int i = 0; i < parameters; ++i) {
      schema["properties"]["p" + std::to_string(i)] = {{"$ref", "#/$defs/n"}};
    }
    use.chosen[0].parameters = schema;
    return answer_grammar(use, style, tokenizer(), {});
  };
  EXPECT_EQ(taken(with(256, 10), "<function_calls>get(p1=1, p255=2)</function_calls>"),
            Taken::whole);
  EXPECT_THROW(with(257, 10), ApiError);
  EXPECT_THROW(with(200, 100'000), ApiError);
}

}  // namespace
}  // namespace talon::answer_grammar_test
