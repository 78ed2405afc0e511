#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/answer_part.h"
#include "text/chat_template.h"

namespace talon {

/// How the models of a family write calls of functions.
enum class ToolDialect {
  none,
  hermes,   // <tool_call>{"name", "arguments"}</tool_call>: Hermes, Qwen and others; also with
            // the parameters as tags: Qwen3-Coder, Qwen3.5, GLM-4.5
  llama3,   // {"name", "parameters"} as the whole answer: without <|python_tag|>, or of Llama 4
            // <|python_start|>, before it a call only by the name of a tool, and else an object
            // like any other
  mistral,  // [TOOL_CALLS] and a list, or NAME[ARGS]{...}
  harmony,  // gpt-oss: channels, to=functions.NAME
  functiongemma,  // <start_function_call>call:NAME{...}<end_function_call>
  gemma4,         // <|tool_call>call:NAME{...}<tool_call|>
  cohere,         // <|START_ACTION|> and a list of {"tool_name", "parameters"}
  deepseek,       // <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>
  granite,        // <|tool_call|> and a list: Granite 3, Phi 4
  seed,           // <seed:tool_call>, the parameters as tags: Seed-OSS
  kimi,           // <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}: Kimi K2
  nemotron,       // <TOOLCALL> and a list: Llama Nemotron
  olmo,           // <function_calls>NAME(KEY=VALUE, ...)</function_calls>, one a line: OLMo 3
  lfm2,           // <|tool_call_start|>[NAME(KEY=VALUE, ...), ...]<|tool_call_end|>: LFM2
  minimax,        // <minimax:tool_call>, calls and their parameters as tags: MiniMax M2
  tool_calls,     // <tool_calls> and a list: Hunyuan A13B
  hunyuan,        // <tool_calls><tool_call>NAME and JSON between fences: Hunyuan; or NAME
                  // <tool_sep> and the parameters as tags: Hy3's preview
  hunyuan_open,   // the latter, with :opensource in the name of each tag: Hy3
  apertus         // <|tools_prefix|> and a list of {NAME: {...}}
};

/// JSON schemas of the arguments, by the names of tools.
using ToolSchemas = std::map<std::string, OrderedJson>;

/// How what a model thinks is told from what it says.
enum class ThoughtMarks {
  tags,     // <think> and </think>
  hunyuan,  // Hy3: <think:opensource> and </think:opensource>
  apertus,  // <|inner_prefix|> and <|inner_suffix|>
  channel,  // Gemma 4: <|channel>thought and <channel|>
  cohere,   // <|START_THINKING|> and <|END_THINKING|>
  seed,     // <seed:think> and </seed:think>
  mistral   // [THINK] and [/THINK]
};

/// Tags that may enclose what follows a thought.
enum class SaidTags {
  none,
  response,  // Granite 3.3: <response> and </response>
  answer     // Hunyuan: <answer> and </answer>; also without a thought, which the prompt may hold
};

/// What answers of a model hold beside text.
struct AnswerStyle {
  ToolDialect dialect = ToolDialect::none;
  bool reasons = false;                 // marks enclose what it thinks
  bool begins_thinking = false;         // the prompt ends within them
  bool continues = false;               // the prompt ends within what a message says
  std::vector<std::string> tools = {};  // names of those that are offered
  ToolSchemas schemas = {};             // of their arguments
  ThoughtMarks thoughts = ThoughtMarks::tags;
  SaidTags said_tags = SaidTags::none;
  bool parallel = true;  // more than one call; else those after the first are left out

  /// Whether its marks are special tokens, so that their text must be part of the answer's.
  bool shows_special() const;
};

/// Whether a chat template speaks of tools, in a dialect that is known: where it does not, or does
/// not write them (tool_use.h), they are told in a system message, and the model is asked to write
/// calls as `hermes`.
bool knows_tools(std::string_view template_source);
/// Whether answers hold the marks of a dialect also where no tools are offered.
bool is_always_marked(ToolDialect dialect);
/// The dialect that a template's source speaks; none: no known one.
ToolDialect dialect_of(std::string_view template_source);
/// The marks that begin calls, of a dialect that has any. A thought ends before them: models go
/// over to a call without its end.
std::vector<std::string_view> call_marks_of(ToolDialect dialect);
/// The marks of what is thought and said, which are no calls: those of thoughts first.
std::vector<std::string_view> text_marks_of(const AnswerStyle& style);
bool marks_reasoning(std::string_view template_source);
ThoughtMarks thought_marks_of(std::string_view template_source);
/// The tags that a template asks for, or the models of a family write, around what follows a
/// thought.
SaidTags said_tags_of(std::string_view template_source);

std::unique_ptr<AnswerReader> make_reader(const AnswerStyle& style);

}  // namespace talon
