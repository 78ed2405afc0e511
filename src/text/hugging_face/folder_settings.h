#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "text/encoder.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace talon {

/// What the files beside a Hugging Face tokenizer say about it. Files that are missing say nothing.
class FolderSettings {
 public:
  /// Reads all files; throws Error for one that is no JSON object.
  explicit FolderSettings(const std::filesystem::path& folder);

  /// Tokens that the files beside the tokenizer's own list.
  std::vector<AddedPiece> added_pieces() const;
  /// How many tokens the model of the folder has; 0 where config.json does not say.
  std::int64_t model_tokens() const;
  /// `model_type` of config.json, or of the text model in it; empty where it has none.
  std::string model_type() const;
  /// `tokenizer_class` of tokenizer_config.json; empty where it has none.
  std::string tokenizer_class() const;

  /// Sets start and end tokens and the chat templates. Ids behind the vocabulary are passed over,
  /// as the defaults of a class may be; throws Error for one that is no id.
  void apply(TokenizerParts& parts) const;

 private:
  /// `bos_token` or `eos_token` as a text.
  std::optional<std::string> token_text(const char* name) const;
  /// `bos_token_id` or `eos_token_id`: none, one or several, of those that the vocabulary has.
  std::vector<TokenId> token_ids(const char* name, const Vocabulary& vocabulary) const;
  std::optional<std::string> chat_template() const;
  std::optional<std::string> tool_template() const;

  std::filesystem::path folder_;
  Json tokenizer_config_, special_tokens_map_, added_tokens_, generation_config_, config_;
};

/// A token as `added_tokens` of a tokenizer.json lists it.
Json added_token_json(const AddedPiece& piece);

/// The whole of a small text file; nothing if there is none.
std::optional<std::string> read_text_file(const std::filesystem::path& path);

}  // namespace talon
