#pragma once

#include <deque>

#include "engine/engine.h"
#include "text/detokenizer.h"

namespace talon {

/// Shows an answer on standard output as it grows. With marks, the text of accepted drafted tokens
/// stands out.
class AnswerStream {
 public:
  /// `tokenizer` may be null: then there is no text. `marks` only where output goes to a terminal.
  AnswerStream(const Tokenizer* tokenizer, bool marks);

  void push(const Progress& progress);
  /// Ends the last line.
  void finish();

 private:
  struct Piece {
    std::size_t bytes;
    bool drafted;
  };
  void remember(std::string_view text, bool drafted);
  std::string marked(std::string_view text);

  bool marks_;
  std::optional<Detokenizer> detokenizer_;
  std::deque<Piece> pieces_;  // of text that the engine may still hold back
};

/// What the marks mean, for standard error, which may be no terminal where standard output is one.
std::string mark_legend();

}  // namespace talon
