#pragma once

#include <string_view>

#include "io/json.h"

namespace talon {

/// Parses untrusted JSON text. Throws Error, beginning with `doing`, for anything that is not one
/// well-formed value, for a key that an object has twice and for more than 64 values within each
/// other. Keys and texts are valid UTF-8.
Json parse_json(std::string_view text, std::string_view doing);

}  // namespace talon
