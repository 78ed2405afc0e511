#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "text/text_range.h"
#include "text/vocabulary.h"

namespace talon {

/// Text to ids: the part of a tokenizer that differs between its kinds. Immutable; may be used from
/// several threads.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// `text` is well-formed UTF-8. A special token that would touch one of `own` (in order, apart)
  /// is read as ordinary text.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      std::span<const TextRange> own) const = 0;
};

/// All of a tokenizer, as the loaders below make it.
struct TokenizerParts {
  std::unique_ptr<Encoder> encoder;
  Vocabulary vocabulary;
  std::string kind;
  bool drops_first_space = false;
  std::optional<TokenId> start_token;
  std::vector<TokenId> behind_start;  // special tokens that follow start_token before a text
  bool wants_start_token = false;
  std::vector<TokenId> end_tokens;
  std::optional<std::string> chat_template;
  std::optional<std::string> tool_template;  // for chats with tools
};

/// Adds `id` to `ends` unless it is there already.
void add_end_token(std::vector<TokenId>& ends, TokenId id);
/// Whether the text of a special token is known to end an answer or a text: `<|im_end|>`, `</s>`,
/// ...
bool is_known_end_text(std::string_view text);
/// Adds the special tokens whose text is; `<|end|>` is none where there is `<|return|>` (gpt-oss),
/// whoever called it one.
void add_known_end_tokens(TokenizerParts& parts);

}  // namespace talon
