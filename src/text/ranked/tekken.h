#pragma once

#include <string>
#include <string_view>

#include "text/ranked/ranked_bpe.h"

namespace talon {

/// What a tekken.json says of text, as mistral-common reads it
/// (https://github.com/mistralai/mistral-common, tokens/tokenizers/tekken.py). Ids: special tokens,
/// filled up with `<SPECIAL_20>` and so on to default_num_special_tokens, then the vocabulary, of
/// which default_vocab_size tokens in all are read.
struct Tekken {
  RankedBpe bpe;
  std::string version;  // "v3", "v7", "v11", "v13": how chats are written
};

/// Throws Error, beginning with `doing`, that names the field.
Tekken parse_tekken(std::string_view json, std::string_view doing);

}  // namespace talon
