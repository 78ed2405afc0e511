#include "cli/terminal/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/environment.h"
#include "cli/terminal/interrupt.h"

namespace talon {
namespace {

bool wants_marks() { return environment("NO_COLOR").empty() && environment("TERM") != "dumb"; }

}  // namespace

void hold_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The other way round; the lowest number that is free is this one.
    const int mode = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) < 0) return;
  }
}

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool notes_are_terminal() { return isatty(STDERR_FILENO) == 1; }
bool notes_can_rewrite() { return notes_are_terminal() && environment("TERM") != "dumb"; }

bool output_shows_marks() { return output_is_terminal() && wants_marks(); }
bool notes_show_marks() { return notes_are_terminal() && wants_marks(); }

bool notes_show_colours() {
  if (!notes_show_marks()) return false;
  const std::string colours = environment("COLORTERM");
  return colours == "truecolor" || colours == "24bit" || environment("TERM").ends_with("-direct");
}

TerminalSize terminal_size() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    const int problem = written < 0 ? errno : 0;
    if (written < 0 && problem != EINTR)
      throw OutputError(fmt::format("write to standard output: {}", std::strerror(problem)));
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    // What is cut short by a signal waits for a reader, perhaps for ever.
    if (!text.empty() && interrupt_requested())
      throw OutputInterrupted("write to standard output: interrupted while nobody took it");
  }
}

void write_json(const Json& json) {
  write_output(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void write_note(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace talon
