#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace talon {

/// Appends `text` to `out` with U+FFFD for each maximal ill-formed part (Unicode 15, section 3.9,
/// table 3-8), but stops before bytes at the very end that the next bytes may still make a
/// character. Returns the number of bytes read.
std::size_t append_well_formed(std::string& out, std::string_view text);

/// `text` with U+FFFD for each maximal ill-formed part, an unfinished character at the end
/// included.
std::string replace_ill_formed(std::string_view text);

/// How many bytes the characters at its beginning have, up to what is none.
std::size_t well_formed_bytes(std::string_view text);
bool is_well_formed(std::string_view text);

}  // namespace talon
