#include "cli/terminal/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <iostream>

#include "cli/options/prompt_options.h"
#include "core/error.h"

namespace talon {

struct LineEditor::Terminal {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string prompt;

  Terminal() {
    if (!std::setlocale(LC_CTYPE, "") ||
        !std::string_view(std::setlocale(LC_CTYPE, nullptr)).ends_with("UTF-8")) {
      std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    editor = el_init("talon", stdin, stderr, stderr);
    history = history_init();
    if (!editor || !history) fail("chat: the line editor did not start");
    ::history(history, &event, H_SETSIZE, 500);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, &Terminal::prompt_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, history);
  }
  ~Terminal() {
    if (history) history_end(history);
    if (editor) el_end(editor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static char* prompt_of(EditLine* editor) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  Result read(std::string& line) {
    int count = 0;
    errno = 0;
    const char* text = el_gets(editor, &count);
    if (!text || count <= 0) {
      if (errno != EINTR) return Result::end;
      el_reset(editor);
      std::fputs("^C\n", stderr);
      return Result::interrupted;
    }
    line.assign(text, static_cast<std::size_t>(count));
    if (!line.empty() && line.back() == '\n') line.pop_back();
    if (!line.empty()) ::history(history, &event, H_ENTER, line.c_str());
    return Result::line;
  }
};

namespace {

/// Throws Error for a line longer than kMostTextBytes, of which no more is read.
bool read_line(std::istream& input, std::string& line) {
  line.clear();
  for (char c = 0; input.get(c);) {
    if (c == '\n') return true;
    line += c;
    if (line.size() > kMostTextBytes)
      fail("chat: expected a line of at most {} bytes, found more", kMostTextBytes);
  }
  return !line.empty();
}

}  // namespace

LineEditor::LineEditor() {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
    terminal_ = std::make_unique<Terminal>();
}

LineEditor::~LineEditor() = default;

LineEditor::Result LineEditor::read(const std::string& prompt, std::string& line) {
  if (terminal_) {
    terminal_->prompt = prompt;
    return terminal_->read(line);
  }
  errno = 0;
  if (read_line(std::cin, line)) return Result::line;
  const bool interrupted = errno == EINTR && !std::cin.eof();
  std::cin.clear();
  return interrupted ? Result::interrupted : Result::end;
}

}  // namespace talon
