#include "core/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"

namespace talon {
namespace {

/// In the child, where only calls that a signal handler may make are safe: becomes the program, or
/// leaves with the error's number.
int become(const ProcessStart& start, char* const* arguments) {
  sigset_t none;  // what the starter holds back reaches the program
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (start.apart) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
  }
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool is_set = (start.folder.empty() || chdir(start.folder.c_str()) == 0) &&
                      dup2(nothing, STDIN_FILENO) >= 0 && dup2(start.output, STDERR_FILENO) >= 0 &&
                      dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  if (is_set) execvp(arguments[0], arguments);
  return errno;
}

}  // namespace

std::optional<pid_t> start_process(const ProcessStart& start) {
  expects(!start.command.empty(), "a program to start");
  std::vector<char*> arguments;
  for (const std::string& argument : start.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> problem_pipe{};  // closed by a program that begins
  if (pipe2(problem_pipe.data(), O_CLOEXEC) != 0)
    fail("start {}: {}", start.command.front(), std::strerror(errno));
  const pid_t process = fork();
  if (process == 0) {
    const int problem = become(start, arguments.data());
    [[maybe_unused]] const ssize_t told = write(problem_pipe[1], &problem, sizeof(problem));
    _exit(127);
  }
  int problem = process < 0 ? errno : 0;
  close(problem_pipe[1]);
  if (process > 0 && read(problem_pipe[0], &problem, sizeof(problem)) > 0)
    wait_for_process(process);
  close(problem_pipe[0]);
  if (problem == ENOENT) return std::nullopt;
  if (problem != 0) fail("start {}: {}", start.command.front(), std::strerror(problem));
  return process;
}

int wait_for_process(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) fail("wait for a program: {}", std::strerror(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace talon
