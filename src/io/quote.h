#pragma once

#include <string>
#include <string_view>

namespace talon {

/// Text from a file, made safe to show in a message: at most 96 bytes of it, bytes that are no
/// printable ASCII as \xHH.
std::string escape(std::string_view text);

/// escape(text) in double quotes.
std::string quote(std::string_view text);

}  // namespace talon
