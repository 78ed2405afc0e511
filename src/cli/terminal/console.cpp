#include "cli/terminal/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace talon {

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool notes_are_terminal() { return isatty(STDERR_FILENO) == 1; }

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
