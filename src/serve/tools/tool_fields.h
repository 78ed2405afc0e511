#pragma once

#include <optional>

#include "serve/api/fields.h"
#include "serve/api/limits.h"
#include "serve/tools/tool_use.h"

namespace talon {

/// A body with the keys of its objects in the order in which they were written: schemas are
/// answered, and tools rendered, in that order. Throws ApiError for objects of so many entries that
/// keeping the order takes long.
OrderedJson ordered_body(const Json& body, const std::string& text);

/// An answer's form that a field asks for.
struct AskedGrammar {
  std::string field;
  GrammarText text;
};
/// `response_format`, `structured_outputs`, `grammar`, `json_schema`, `text.format` and
/// `output_config.format`; nothing if there is none. Throws ApiError, also for more than one.
std::optional<AskedGrammar> read_grammar(const Fields& fields, const OrderedJson& body,
                                         const RequestLimits& limits);

enum class ToolShape { chat, responses, messages };
/// `tools`, `tool_choice` and whether calls may be parallel. Throws ApiError. Of responses and
/// messages, tools that are no functions are left out.
ToolUse read_tools(ToolShape shape, const Fields& fields, const OrderedJson& body,
                   const RequestLimits& limits);
/// Whether an entry of `tools` of responses or messages is a function, or meant as one: others
/// (web_search, ...) are work of a server that has them.
bool is_function_tool(ToolShape shape, const Json& tool);

}  // namespace talon
