#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/answer_part.h"

namespace talon {

/// How the models of a family write calls of functions.
enum class ToolDialect {
  none,
  hermes,        // <tool_call>{"name", "arguments"}</tool_call>: Hermes, Qwen and others
  llama3,        // {"name", "parameters"} as the whole answer: without <|python_tag|> before it a
                 // call only by the name of a tool, and else an object like any other
  mistral,       // [TOOL_CALLS] and a list, or NAME[ARGS]{...}
  harmony,       // gpt-oss: channels, to=functions.NAME
  functiongemma  // <start_function_call>call:NAME{...}<end_function_call>
};

/// What answers of a model hold beside text.
struct AnswerStyle {
  ToolDialect dialect = ToolDialect::none;
  bool reasons = false;                 // <think> and </think> enclose what it thinks
  bool begins_thinking = false;         // the prompt ends within <think> and </think>
  bool continues = false;               // the prompt ends within what a message says
  std::vector<std::string> tools = {};  // names of those that are offered

  /// Whether its marks are special tokens, so that their text must be part of the answer's.
  bool shows_special() const;
};

/// Whether a chat template knows tools: else they are told in a system message, and the model is
/// asked to write calls as `hermes`.
bool knows_tools(std::string_view template_source);
/// The dialect that a template's source speaks; hermes for one that speaks none.
ToolDialect dialect_of(std::string_view template_source);
bool marks_reasoning(std::string_view template_source);

std::unique_ptr<AnswerReader> make_reader(const AnswerStyle& style);

}  // namespace talon
