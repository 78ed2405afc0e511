#pragma once

#include <sys/types.h>

#include <functional>

namespace talon {

/// A copy of this process that runs `body`, in a group of its own that is killed with this object.
/// It dies with its parent, too.
class ChildProcess {
 public:
  /// Between fork and exec `body` may only call what is safe in a signal handler. It should not
  /// return. Its standard output is kept, or goes nowhere if it is much; its errors go nowhere.
  explicit ChildProcess(const std::function<void()>& body);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Whether it writes something within the time.
  bool writes_within(double ms) const;
  pid_t id() const { return id_; }

 private:
  pid_t id_ = -1;
  int output_ = -1;
};

}  // namespace talon
