#pragma once

#include <string_view>
#include <vector>

#include "serve/tools/answer_part.h"

namespace talon {

/// Calls as Python writes them, `NAME(KEY=VALUE, ...)`, one after the other with white space
/// between, or in a list. Values are literals of Python or JSON. None if the text is anything else.
std::vector<ReadAnswer::Call> read_python_calls(std::string_view text);

}  // namespace talon
