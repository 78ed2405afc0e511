#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "text/tokenizer.h"

namespace talon {

/// Turns a stream of tokens into a stream of text that never holds half a UTF-8 character: bytes
/// that may still become a character wait, bytes that never can become U+FFFD. The pieces joined
/// equal Tokenizer::decode of all tokens with ill-formed bytes replaced. Value type over a borrowed
/// tokenizer.
class Detokenizer {
 public:
  /// `continues_text`: the answer follows a prompt, so a SentencePiece tokenizer's first space is
  /// kept.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true,
                       bool continues_text = true);

  /// Text made complete by this token; often empty.
  std::string push(TokenId token);
  /// What is left at the end: an unfinished character becomes one U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool drop_space_;
  std::string pending_;
};

/// Finds stop texts in a stream of text pieces, also across their borders. Value type.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stop_texts = {});

  struct Output {
    std::string text;  // safe to show: can no longer be the beginning of a stop text
    bool stopped =
        false;  // a stop text is complete; `text` ends before it, and all later text is dropped
  };
  Output push(std::string_view piece);
  /// Held-back text once the stream has ended without a stop.
  std::string finish();
  bool empty() const { return stop_texts_.empty(); }

 private:
  std::vector<std::string> stop_texts_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace talon
