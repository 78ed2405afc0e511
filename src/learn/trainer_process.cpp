#include "learn/trainer_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/process.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::chrono::milliseconds kLastWords{8000};  // to write a checkpoint
constexpr std::chrono::milliseconds kGlance{20};
constexpr int kLowestPriority = 19;

}  // namespace

TrainerProcess::TrainerProcess(const std::vector<std::string>& command,
                               const std::filesystem::path& log) {
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (output < 0) fail("learn: cannot write {}: {}", quote(log.string()), std::strerror(errno));
  std::optional<pid_t> process;
  try {
    process = start_process({.command = command, .output = output, .apart = true});
  } catch (...) {
    ::close(output);
    throw;
  }
  ::close(output);
  if (!process) fail("learn: expected the program {}, found none", quote(command.front()));
  process_ = *process;
  let_work(false);
  // Either may be refused; the share of time stays.
  setpriority(PRIO_PROCESS, static_cast<id_t>(process_), kLowestPriority);
  const sched_param none{};
  sched_setscheduler(process_, SCHED_IDLE, &none);
}

TrainerProcess::~TrainerProcess() {
  if (ended()) return;
  ::kill(process_, SIGTERM);
  let_work(true);
  const auto end = std::chrono::steady_clock::now() + kLastWords;
  while (!ended() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kGlance);
  if (ended()) return;
  ::kill(process_, SIGKILL);
  wait_for_process(process_);
}

void TrainerProcess::let_work(bool may) {
  if (code_ || std::exchange(works_, may) == may) return;
  ::kill(process_, may ? SIGCONT : SIGSTOP);
}

std::optional<int> TrainerProcess::ended() {
  if (code_) return code_;
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

}  // namespace talon
