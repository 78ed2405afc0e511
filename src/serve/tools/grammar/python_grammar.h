#pragma once

#include <string>

#include "serve/tools/grammar/lark.h"
#include "serve/tools/tool_use.h"

namespace talon {

/// What a call of `tool` looks like as Python writes it, NAME(KEY=VALUE, ...), in llguidance's
/// Lark: the keys in the order of the schema, the values in JSON. Its rules go into `rules`. Throws
/// ApiError where the schema has too many parameters.
std::string python_call(const Tool& tool, bool keeps_to_schema, LarkRules& rules);

}  // namespace talon
