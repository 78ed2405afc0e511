#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/checkpoint.h"
#include "text/text_range.h"

namespace talon {

struct EncodeOptions {
  bool parse_special =
      true;  // text of special tokens (`<|im_end|>`) becomes their id; false: ordinary text
  bool add_start = false;  // put the start token first, if the model has one and wants one, and
                           // what follows it (GLM-4's <sop>), unless the text begins with it
  /// Parts of well-formed text, in order and apart: a special token that would touch one is
  /// ordinary text all the same.
  std::span<const TextRange> own = {};
};

/// Text to token ids and back, for one model. Immutable after load; may be used from several
/// threads. A wrapper may change encode(), bytes_of() and is_special(), and throw there.
class Tokenizer {
 public:
  /// The tokenizer that belongs to a checkpoint: embedded in a GGUF; the first of tokenizer.json,
  /// tokenizer.model, tekken.json, tiktoken.model and *.tiktoken in a folder; tokenizer.json,
  /// tokenizer.model or tok*.bin beside a llama2.c file. Throws Error, naming what was looked for.
  static Tokenizer for_checkpoint(const Checkpoint& checkpoint);
  static Tokenizer from_json_file(const std::filesystem::path& tokenizer_json);
  static Tokenizer from_sentencepiece(const std::filesystem::path& tokenizer_model);
  static Tokenizer from_gguf(const Json& metadata, std::string_view file_name);
  static Tokenizer from_llama2c(const std::filesystem::path& tok_bin);

  virtual ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The ids of a text whose special tokens are matched in all of it, or nowhere in some parts:
  /// what lies beside such a part is encoded together with it, as everywhere. Invalid UTF-8 in
  /// `text` is replaced by U+FFFD, one for each maximal ill-formed part, before encoding.
  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes that `id` adds to the text: for a byte token that byte, for a special token its
  /// text. Not necessarily whole UTF-8 characters; a SentencePiece word start is a leading space.
  /// An id that no token has adds nothing, here and below: models may have more rows than their
  /// tokenizers have tokens.
  virtual std::string bytes_of(TokenId id) const;
  /// The piece as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
  std::string piece_of(TokenId id) const;
  virtual bool is_special(TokenId id) const;

  /// The whole text of `ids`. With skip_special, special tokens add nothing. A SentencePiece
  /// tokenizer drops the one space that it put before the first word.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  int vocabulary_size() const;
  /// The text of every special token.
  std::vector<std::string> special_texts() const;
  /// The most bytes that one token stands for: a text of more than n times as many has over n
  /// tokens.
  std::size_t longest_token() const;
  std::optional<TokenId> start_token() const;
  bool wants_start_token() const;                  // whether text fed to the model begins with it
  const std::vector<TokenId>& end_tokens() const;  // each ends an answer; may be empty
  bool drops_first_space() const;                  // see decode()
  std::string_view kind() const;  // "byte-level BPE", "SentencePiece BPE", ... for `talon inspect`

  /// The model's chat template (Jinja source), if its files carry one.
  const std::optional<std::string>& chat_template() const;
  /// The one for chats with tools, if they carry another for these.
  const std::optional<std::string>& tool_template() const;
  /// Text of the start and end tokens, which templates refer to; empty when the model has none.
  std::string start_text() const;
  std::string end_text() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether a model of so many rows has one for every token of text. Special tokens without a row,
/// such as a padding token that a tokenizer was given later, are never drawn, and a prompt with one
/// is refused: nobody need miss the model for them.
bool has_rows_for_text(const Tokenizer& tokenizer, int rows);

}  // namespace talon
