#include "bench/contention/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace talon {

ChildProcess::ChildProcess(const std::function<void()>& body) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) fail("start a process: {}", std::strerror(errno));
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ == 0) {
    setpgid(0, 0);  // Ctrl-C is for the parent, which ends this one
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it has ended before
    dup2(nowhere, STDIN_FILENO);
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    body();
    _exit(1);
  }
  const int error = errno;
  close(pipe_ends[1]);
  close(nowhere);
  output_ = pipe_ends[0];
  if (id_ < 0) {
    close(output_);
    fail("start a process: {}", std::strerror(error));
  }
  setpgid(id_, id_);  // whoever of the two is first
}

ChildProcess::~ChildProcess() {
  kill(-id_, SIGKILL);
  waitpid(id_, nullptr, 0);
  close(output_);
}

bool ChildProcess::writes_within(double ms) const {
  pollfd wait{output_, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(ms)) == 1 && (wait.revents & POLLIN) != 0;
}

}  // namespace talon
