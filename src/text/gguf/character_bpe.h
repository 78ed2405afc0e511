#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/encoder.h"
#include "text/gguf/gguf_fields.h"

namespace talon {

/// A BPE of characters, where others are of bytes: spaces are U+2581, line breaks stand apart from
/// all else, and a character without a token is the tokens `<0xE2>` of its bytes. Gemma 4 is one.
struct CharacterBpe {
  std::string_view name;         // in `tokenizer.ggml.pre`
  bool always_starts = false;    // with the start token, whatever the file says
  bool hides_additions = false;  // tokens added to those of the merges are called ordinary ones
};

/// Nothing for other names.
std::optional<CharacterBpe> find_character_bpe(std::string_view name);
std::vector<std::string_view> character_bpe_names();

/// `texts` and `types`: of all tokens, types as GgufTokenType. Throws Error, beginning with
/// `doing`.
TokenizerParts load_character_bpe(const CharacterBpe& kind, const GgufFields& fields,
                                  std::span<const std::string_view> texts,
                                  std::span<const int> types, std::string_view doing);

/// Special tokens of Gemma 4 that its GGUF files call ordinary ones, so that programs show them.
bool is_shown_mark_of_gemma(std::string_view text);

}  // namespace talon
