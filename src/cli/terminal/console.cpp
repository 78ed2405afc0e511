#include "cli/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace talon {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool wants_marks() { return environment("NO_COLOR").empty() && environment("TERM") != "dumb"; }

}  // namespace

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool notes_are_terminal() { return isatty(STDERR_FILENO) == 1; }

bool output_shows_marks() { return output_is_terminal() && wants_marks(); }
bool notes_show_marks() { return notes_are_terminal() && wants_marks(); }

bool notes_show_colours() {
  if (!notes_show_marks()) return false;
  const std::string_view colours = environment("COLORTERM");
  return colours == "truecolor" || colours == "24bit" || environment("TERM").ends_with("-direct");
}

TerminalSize terminal_size() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError(fmt::format("write to standard output: {}", std::strerror(errno)));
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
