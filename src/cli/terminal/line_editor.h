#pragma once

#include <memory>
#include <string>

namespace talon {

/// Reads lines that a person types: with editing and history on a terminal, plainly elsewhere.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();

  enum class Result { line, interrupted, end };
  /// `line` without its line break. interrupted: Ctrl-C; end: Ctrl-D or the end of the input.
  Result read(const std::string& prompt, std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null when standard input or error is no terminal
};

}  // namespace talon
