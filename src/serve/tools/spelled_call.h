#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "serve/tools/answer_part.h"
#include "serve/tools/answer_style.h"

namespace talon {

/// A call that is no JSON object: between <tool_call> and </tool_call>
/// `<function=NAME> <parameter=KEY> VALUE </parameter> ... </function>` (Qwen3-Coder, Qwen3.5), or
/// `NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ...` (GLM-4.5).
/// Nothing if the text is none. A value is a text or JSON: what the schema of its tool says.
std::optional<ReadAnswer::Call> read_spelled_call(std::string_view text,
                                                  const ToolSchemas& schemas);

/// Calls of MiniMax M2, one after the other: `<invoke name="NAME"> <parameter name="KEY">VALUE
/// </parameter> ... </invoke>`. None if the text is anything else. Values are as above.
std::vector<ReadAnswer::Call> read_invocations(std::string_view text, const ToolSchemas& schemas);

/// A call of Hunyuan's: NAME and the arguments in JSON between fences, or of Hy3 `NAME<tool_sep>`
/// and the pairs of GLM-4.5 or JSON. Nothing if the text is none. is_open: the names of tags have
/// the suffix `:opensource`.
std::optional<ReadAnswer::Call> read_hunyuan_call(std::string_view text, const ToolSchemas& schemas,
                                                  bool is_open);

}  // namespace talon
