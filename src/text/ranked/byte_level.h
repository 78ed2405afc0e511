#pragma once

#include <string>
#include <string_view>

namespace talon {

/// Bytes as byte-level vocabularies spell them: printable ones as themselves, the others as the
/// characters from U+0100 on.
std::string spell_bytes(std::string_view bytes);

}  // namespace talon
