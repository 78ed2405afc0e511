#pragma once

#include <cstddef>
#include <string_view>

#include "io/json.h"

namespace talon {

/// A value takes up to 26 times its two bytes of text: so many are 300 MB at most. The header of
/// 400,000 tensors has fewer.
inline constexpr std::size_t kMostJsonValues = 4'000'000;

/// Parses untrusted JSON text. Throws Error, beginning with `doing`, for anything that is not one
/// well-formed value, for a key that an object has twice and for more than 64 values within each
/// other or more than kMostJsonValues in all. Keys and texts are valid UTF-8.
Json parse_json(std::string_view text, std::string_view doing);

}  // namespace talon
