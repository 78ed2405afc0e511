#include "serve/tools/answer_style.h"

#include <gtest/gtest.h>

namespace talon::answer_style_test {
namespace {

/// "THOUGHT|WORDS|NAME ARGUMENTS;..." of a text that comes in two pieces.
std::string read(const AnswerStyle& style, std::string_view first, std::string_view second) {
  const auto reader = make_reader(style);
  AnswerReader::Parts parts;
  reader->read(first, parts);
  reader->read(second, parts);
  reader->finish(parts);
  const ReadAnswer answer = joined(parts);
  std::string all = answer.reasoning + "|" + answer.content + "|";
  for (const ReadAnswer::Call& call : answer.calls) all += call.name + " " + call.arguments + ";";
  return all;
}

void expect_read(const AnswerStyle& style, std::string_view text, const std::string& expected) {
  for (std::size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(read(style, text.substr(0, at), text.substr(at)), expected) << at;
  }
}

TEST(AnswerStyles, AreThoseOfTheTemplates) {
  EXPECT_EQ(dialect_of("{% if tools %}<tool_call>"), ToolDialect::hermes);
  EXPECT_EQ(dialect_of("[AVAILABLE_TOOLS] [TOOL_CALLS]"), ToolDialect::mistral);
  EXPECT_EQ(dialect_of("<|channel|> to=functions. <|call|>"), ToolDialect::harmony);
  EXPECT_EQ(dialect_of("<start_function_call>call:"), ToolDialect::functiongemma);
  EXPECT_EQ(dialect_of("<|tool_call>call: <|channel> <channel|>"), ToolDialect::gemma4);
  EXPECT_EQ(dialect_of("<｜tool▁call▁begin｜> <｜tool▁sep｜>"), ToolDialect::deepseek);
  EXPECT_EQ(dialect_of("<|tool_call|>"), ToolDialect::granite);
  EXPECT_EQ(dialect_of("<seed:think> <seed:tool_call>"), ToolDialect::seed);
  EXPECT_EQ(dialect_of("<|tool_call_begin|> <|tool_call_argument_begin|>"), ToolDialect::kimi);
  EXPECT_EQ(dialect_of("<AVAILABLE_TOOLS> <TOOLCALL>"), ToolDialect::nemotron);
  EXPECT_EQ(thought_marks_of("<seed:think> </seed:think>"), ThoughtMarks::seed);
  EXPECT_EQ(thought_marks_of("<|channel> <channel|>"), ThoughtMarks::channel);
  EXPECT_EQ(thought_marks_of("[THINK] [/THINK]"), ThoughtMarks::mistral);
  EXPECT_TRUE(marks_reasoning("<|channel>thought <channel|>"));
  EXPECT_EQ(thought_marks_of("<think> <|channel|>"), ThoughtMarks::tags);
  EXPECT_EQ(dialect_of("Environment: ipython ... \"parameters\""), ToolDialect::llama3);
  EXPECT_EQ(dialect_of("{{ messages }}"), ToolDialect::none);
  EXPECT_FALSE(knows_tools("<tool_call> {{ messages }}"));
  EXPECT_FALSE(knows_tools("{{ tools }} <|observation|>"));
  EXPECT_TRUE(knows_tools("{{ tools }} <tool_call>"));
  EXPECT_TRUE(marks_reasoning("{{ '<think>' }}"));
  EXPECT_EQ(said_tags_of("between <response> and </response>"), SaidTags::response);
  EXPECT_EQ(said_tags_of("<tool_response>"), SaidTags::none);
}

/// Parts of what is published.
TEST(AnswerStyles, AreThoseOfLaterTemplates) {
  EXPECT_EQ(dialect_of("List of tools: <|tool_list_start|>["), ToolDialect::lfm2);
  EXPECT_EQ(dialect_of("\"List of tools: [\" <|im_start|>assistant"), ToolDialect::lfm2);
  EXPECT_EQ(dialect_of("List of tools: ' + (tools | tojson) <|tool_call_start|>["),
            ToolDialect::lfm2);
  EXPECT_EQ(dialect_of("'<minimax:tool_call>' <invoke name="), ToolDialect::minimax);
  EXPECT_EQ(dialect_of("<tool_calls>[{\"name\": <tool_response>"), ToolDialect::tool_calls);
  EXPECT_EQ(dialect_of("<tool_calls> <tool_call>function_name\n```json"), ToolDialect::hunyuan);
  EXPECT_EQ(dialect_of("'<tool_calls>' '<tool_call>' '<tool_sep>'"), ToolDialect::hunyuan);
  const char* suffixed = "HYTK = ':opensource' '<tool_calls{}>'.format(HYTK) '<think{}>'";
  EXPECT_EQ(dialect_of(suffixed), ToolDialect::hunyuan_open);
  EXPECT_EQ(thought_marks_of(suffixed), ThoughtMarks::hunyuan);
  EXPECT_TRUE(marks_reasoning(suffixed));
  EXPECT_EQ(dialect_of("'<|tools_prefix|>' '<|tools_suffix|>'"), ToolDialect::apertus);
  EXPECT_EQ(thought_marks_of("'<|inner_prefix|>' '<|inner_suffix|>'"), ThoughtMarks::apertus);
  EXPECT_EQ(dialect_of("{% if message.tool_calls %}<tool_call>{\"name\""), ToolDialect::hermes);
  EXPECT_EQ(said_tags_of("<|extra_0|> <think>"), SaidTags::answer);
  EXPECT_EQ(said_tags_of("<｜hy_User｜> '<answer>' in content"), SaidTags::answer);
  EXPECT_EQ(said_tags_of("<｜hy_User｜> <think>"), SaidTags::none);
  EXPECT_EQ(said_tags_of("Write <answer> and </answer>."), SaidTags::none);
}

TEST(Thoughts, EndBeforeACallWhereToolsAreOffered) {
  AnswerStyle style = {.dialect = ToolDialect::hermes, .reasons = true, .begins_thinking = true};
  expect_read(style, "I look.\n<tool_call>\n<function=get>\n</function>\n</tool_call>",
              "I look.||get {};");
  expect_read(style, "I look.</think>\n\n<tool_call>{\"name\": \"get\"}</tool_call>",
              "I look.||get {};");
  style.dialect = ToolDialect::none;
  expect_read(style, "A <tool_call>.</think>So.", "A <tool_call>.|So.|");
}

TEST(Thoughts, MayBeFollowedByAResponseInTags) {
  AnswerStyle style = {.dialect = ToolDialect::granite, .reasons = true};
  style.said_tags = SaidTags::response;
  expect_read(style, "<think>a</think><response>b</response>", "a|b|");
  expect_read(style, "<think>a</think>\n<response>\nb </response>c</response> \n",
              "a|b </response>c|");
  expect_read(style, "<think>a</think><response>b</resp", "a|b</resp|");
  expect_read(style, "<think>a</think><resp", "a|<resp|");
  expect_read(style, "<think>a</think>b</response>", "a|b</response>|");
  expect_read(style, "<response>b</response>", "|<response>b</response>|");
  expect_read(style, "<think>a<|tool_call|>[{\"name\": \"get\"}]", "a||get {};");
  style.said_tags = SaidTags::none;
  expect_read(style, "<think>a</think><response>b</response>", "a|<response>b</response>|");
  style.said_tags = SaidTags::answer;
  style.dialect = ToolDialect::none;
  expect_read(style, "<think>\na\n</think>\n<answer>\nb \n\nc\n</answer>\n", "a|b \n\nc|");
  expect_read(style, "<think>a</think><answer>b \n", "a|b \n|");
  // Whose prompt held the thought, an empty one.
  expect_read(style, "<answer>\nb\n</answer>", "|b|");
  expect_read(style, "b <answer>", "|b <answer>|");
  expect_read(style, "<ans", "|<ans|");
}

}  // namespace
}  // namespace talon::answer_style_test
