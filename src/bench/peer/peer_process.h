#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace talon {

/// A program that runs beside this one and ends with it at the latest. Its output goes to a file
/// without a name.
class PeerProcess {
 public:
  /// Throws Error if the program cannot be started.
  explicit PeerProcess(const std::vector<std::string>& command);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool running();
  /// The last lines it wrote, for messages.
  std::string last_output() const;

 private:
  pid_t process_ = -1;
  int output_ = -1;
};

/// A port of this machine that nobody listens on now.
int free_port();

}  // namespace talon
