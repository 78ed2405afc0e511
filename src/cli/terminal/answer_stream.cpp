#include "cli/terminal/answer_stream.h"

#include <algorithm>

#include "cli/terminal/console.h"

namespace talon {
namespace {

constexpr std::string_view kMarkBegin = "\x1b[1;32m";
constexpr std::string_view kMarkEnd = "\x1b[0m";

}  // namespace

AnswerStream::AnswerStream(const Tokenizer* tokenizer, bool marks) : marks_(marks && tokenizer) {
  if (marks_) detokenizer_.emplace(*tokenizer);
}

void AnswerStream::push(const Progress& progress) {
  if (!marks_) {
    write_output(progress.text);
    return;
  }
  for (std::size_t i = 0; i < progress.tokens.size(); ++i) {
    remember(detokenizer_->push(progress.tokens[i]), static_cast<int>(i) < progress.accepted);
  }
  if (progress.finish != FinishReason::none) remember(detokenizer_->finish(), false);
  write_output(marked(progress.text));
}

void AnswerStream::finish() { write_output("\n"); }

void AnswerStream::remember(std::string_view text, bool drafted) {
  if (!text.empty()) pieces_.push_back({text.size(), drafted});
}

std::string AnswerStream::marked(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (pieces_.empty()) return out.append(text);
    Piece& piece = pieces_.front();
    const std::size_t bytes = std::min(piece.bytes, text.size());
    if (piece.drafted) out += kMarkBegin;
    out += text.substr(0, bytes);
    if (piece.drafted) out += kMarkEnd;
    text.remove_prefix(bytes);
    piece.bytes -= bytes;
    if (piece.bytes == 0) pieces_.pop_front();
  }
  return out;
}

std::string mark_legend() {
  const bool is_green = notes_show_marks();
  return fmt::format("{}green{}: drafted and accepted; plain: the model's own next token",
                     is_green ? kMarkBegin : "", is_green ? kMarkEnd : "");
}

}  // namespace talon
