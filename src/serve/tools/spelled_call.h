#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/tools/answer_part.h"
#include "serve/tools/answer_style.h"

namespace talon {

/// A call that is no JSON object: between <tool_call> and </tool_call>
/// `<function=NAME> <parameter=KEY> VALUE </parameter> ... </function>` (Qwen3-Coder, Qwen3.5), or
/// `NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ...` (GLM-4.5).
/// Nothing if the text is none. A value is a text or JSON: what the schema of its tool says.
std::optional<ReadAnswer::Call> read_spelled_call(std::string_view text,
                                                  const ToolSchemas& schemas);

}  // namespace talon
