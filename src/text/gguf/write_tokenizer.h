#pragma once

#include <span>

#include "core/types.h"
#include "io/checkpoint.h"
#include "io/formats/write_gguf.h"

namespace talon {

/// The tokenizer of a checkpoint that is no GGUF, with its chat template, as the key-values of a
/// GGUF for a model of `rows` token embeddings. What is written was read again and gave the same
/// ids for texts of many scripts. Throws Error for a tokenizer that GGUF (byte-level BPE of the
/// cuttings that have a name there, SentencePiece's BPE) cannot say. `architecture` is the file's,
/// by which a reader knows what the keys do not say.
GgufMetadata write_gguf_tokenizer(const Checkpoint& checkpoint, int rows,
                                  std::string_view architecture = {});

/// The key-values of the tokens that end a text. A GGUF has a place for three: further ones are
/// left out.
GgufMetadata gguf_end_tokens(std::span<const TokenId> ends);
constexpr std::size_t kGgufEndTokens = 3;

}  // namespace talon
