#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace talon {

/// A program that works only while it may, behind everything else on the machine: at the lowest
/// priority, and stopped where it is when it may not. It ends with the thread that started it.
class TrainerProcess {
 public:
  /// Starts it, stopped. What it says goes to `log`. Throws Error if it cannot be started.
  TrainerProcess(const std::vector<std::string>& command, const std::filesystem::path& log);
  /// Asks it to end, and ends it if it takes longer than a few seconds.
  ~TrainerProcess();
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  void let_work(bool may);
  /// Its exit code, or 128 + the signal that ended it; nothing while it lives.
  std::optional<int> ended();

 private:
  pid_t process_ = 0;
  bool works_ = true;
  std::optional<int> code_;
};

}  // namespace talon
