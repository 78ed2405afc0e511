#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "core/error.h"
#include "io/json.h"

namespace talon {

/// Takes the place of each of the three standard streams that is closed, so that no file is opened
/// there, which notes or answers would then go into: reading from it and writing to it fail.
void hold_standard_streams();

/// Answers go to standard output, everything else to standard error.
bool output_is_terminal();
bool notes_are_terminal();

/// Whether notes go to a terminal that can write over a line (TERM).
bool notes_can_rewrite();

/// Whether there is a terminal that knows colours (TERM), and nobody asks for none (NO_COLOR).
bool output_shows_marks();
bool notes_show_marks();
/// Whether notes_show_marks() and the terminal shows 24-bit colours (COLORTERM, TERM).
bool notes_show_colours();

struct TerminalSize {
  int columns = 80, lines = 24;
};
/// Of the terminal of standard error; what is usual where there is none.
TerminalSize terminal_size();

/// Standard output cannot take more: a full disk, a closed file.
class OutputError : public Error {
 public:
  using Error::Error;
};

/// A signal that is to end the work (interrupt.h) came while nobody took what was written.
class OutputInterrupted : public OutputError {
 public:
  using OutputError::OutputError;
};

/// Writes all of it at once. Throws OutputError.
void write_output(std::string_view text);
/// One JSON value on a line of its own. Text that is not UTF-8 is repaired with U+FFFD.
void write_json(const Json& json);

/// One line on standard error.
void write_note(std::string_view line);
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace talon
