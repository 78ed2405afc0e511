#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace talon {

/// How a program is started: with exactly these arguments, no shell.
struct ProcessStart {
  std::vector<std::string> command = {};  // its program is found on the path unless it has a slash
  std::filesystem::path folder = {};      // where it runs; empty: here
  /// Descriptor that takes what it writes, its errors too. It reads nothing.
  int output = 2;
  /// Ctrl-C does not reach it, and it ends when the thread that started it does.
  bool apart = false;
};

/// The process; nothing if there is no such program. Throws Error if it cannot be started
/// otherwise.
std::optional<pid_t> start_process(const ProcessStart& start);

/// Waits for its end. Its exit code, or 128 + n when signal n ended it.
int wait_for_process(pid_t process);

}  // namespace talon
