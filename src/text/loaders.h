#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "io/checkpoint.h"
#include "io/json.h"
#include "text/encoder.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace talon {

/// One per source of a tokenizer; each gives all of TokenizerParts. Throw Error, naming the file
/// and the field.
TokenizerParts load_gguf_tokenizer(const Json& metadata, std::string_view file_name);

/// With what the files beside it say: tokenizer_config.json, special_tokens_map.json,
/// added_tokens.json, generation_config.json, config.json, chat_template.jinja, chat_template.json.
TokenizerParts load_json_tokenizer(const std::filesystem::path& tokenizer_json);
TokenizerParts load_sentencepiece_tokenizer(const std::filesystem::path& tokenizer_model);

/// Mistral's tekken.json. Where the files beside it have no chat template it is the one of the
/// tokenizer's version.
TokenizerParts load_tekken_tokenizer(const std::filesystem::path& tekken_json);
/// The ranks of tiktoken: a tiktoken.model, a *.tiktoken or Llama 3's tokenizer.model. The folder's
/// configuration says whose they are, and so how text is cut.
TokenizerParts load_tiktoken_tokenizer(const std::filesystem::path& ranks);
/// The tokenizer.json that such a file stands for.
Json tekken_as_tokenizer_json(const std::filesystem::path& tekken_json);
Json tiktoken_as_tokenizer_json(const std::filesystem::path& ranks);

/// The tokenizer of a checkpoint that is no GGUF, in its folder or beside it. Throws Error, naming
/// what was looked for.
struct TokenizerFile {
  enum class Kind { json, sentencepiece, tekken, tiktoken, llama2c } kind = Kind::json;
  std::filesystem::path path;
};
TokenizerFile find_tokenizer_beside(const Checkpoint& checkpoint);
/// Whether there is one; of a llama2.c file, which is nothing without, always.
bool has_tokenizer_beside(const Checkpoint& checkpoint);
TokenizerParts load_tokenizer_beside(const Checkpoint& checkpoint);

/// llama2.c's tok*.bin: int32 longest piece, then for each token float32 score, int32 bytes, the
/// bytes; to the end of the file. Ids 3 to 258 are the 256 bytes; 1 begins and ends a story.
/// https://github.com/karpathy/llama2.c, tokenizer.py
TokenizerParts load_llama2c_tokenizer(const std::filesystem::path& tok_bin);
/// Its pieces alone.
SentencePieceModel read_llama2c_pieces(const std::filesystem::path& tok_bin);
/// The tokenizer from bytes in memory; errors begin with `doing`.
TokenizerParts parse_llama2c_tokenizer(std::span<const std::byte> bytes, std::string doing);

}  // namespace talon
