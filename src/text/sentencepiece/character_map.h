#pragma once

#include <string_view>

namespace talon {

/// Checks a SentencePiece model's `precompiled_charsmap`, which the library follows without
/// looking: a uint32 size, a double-array trie of that many bytes (darts-clone), then texts that
/// each end in a zero byte. Throws Error, beginning with `doing`, unless every step from every node
/// stays inside the trie, and every value inside the texts, before one of at most 256 bytes.
void check_character_map(std::string_view map, std::string_view doing);

}  // namespace talon
