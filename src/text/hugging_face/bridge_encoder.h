#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoder.h"

namespace talon {

/// A BPE as a GGUF holds it.
struct TokenLists {
  enum class Kind : std::uint8_t { ordinary, added, added_special };
  std::vector<std::string_view> tokens;
  std::vector<Kind> kinds;               // one for each token
  std::vector<std::string_view> merges;  // "left right", best first
  std::string_view pipeline;             // JSON, see talon_bpe in bridge.h
};

/// Tokenizers of the crate `tokenizers`. Set: encoder, vocabulary, kind, drops_first_space, and the
/// start tokens if a post-processor names some. Throw Error, beginning with `doing`.
TokenizerParts load_bpe(const TokenLists& bpe, std::string_view doing);
TokenizerParts load_tokenizer_json(std::string_view json, std::string_view doing);

}  // namespace talon
