#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace talon {

/// The bytes of a token in base64 with its padding; nothing for what is none.
std::optional<std::string> decode_base64_token(std::string_view text);

}  // namespace talon
