#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/json.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace talon {

/// tokenizer.ggml.token_type.
enum GgufTokenType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// What a GGUF says of each token.
struct GgufTokens {
  std::string model;  // "gpt2", "llama", or "gemma4": see character_bpe.h
  std::vector<std::string> texts;
  std::vector<int> types;
  std::vector<float> scores;        // of "llama"
  std::vector<std::string> merges;  // of the others: "left right", best first
  bool adds_space = false;          // of "llama": before a text
};

/// From a tokenizer.json. Throws Error, beginning with `doing`, for one that is neither a
/// byte-level BPE nor one of SentencePiece's kind.
GgufTokens gguf_tokens_of(const Json& tokenizer_json, std::string_view doing);
/// From a SentencePiece model and the tokens that files beside it add.
GgufTokens gguf_tokens_of(const SentencePieceModel& model, const std::vector<AddedPiece>& added,
                          std::string_view doing);

}  // namespace talon
