#include "cli/terminal/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "io/atomic_file.h"

namespace talon {
namespace {

StopFlag interrupted, ended;  // what a signal handler may touch has to be global

constexpr time_t kSeconds = 1;  // a program that starts others may pass one Ctrl-C on to them

time_t now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec;
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void on_interrupt(int signal) {
  if (signal != SIGINT) ended.request();
  static volatile time_t first = 0;
  if (!interrupted.requested()) first = now();
  if (interrupted.requested() && now() - first > kSeconds) {
    remove_files_aside();
    _exit(130);
  }
  interrupted.request();
}

void on_broken_pipe(int signal) {
  remove_files_aside();
  ::signal(signal, SIG_DFL);
  raise(signal);  // once this handler returns
}

void set_handlers(void (*on_end)(int), void (*on_pipe)(int)) {
  struct sigaction action = {};
  action.sa_handler = on_end;
  sigemptyset(&action.sa_mask);
  // no SA_RESTART: Ctrl-C also ends a wait for input
  for (const int signal : ending_signals()) sigaction(signal, &action, nullptr);
  action.sa_handler = on_pipe;
  if (!is_ignored(SIGPIPE)) sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

std::vector<int> ending_signals() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  if (!is_ignored(SIGHUP)) signals.push_back(SIGHUP);
  return signals;
}

InterruptGuard::InterruptGuard() {
  interrupted.clear();
  ended.clear();
  set_handlers(on_interrupt, on_broken_pipe);
}

InterruptGuard::~InterruptGuard() { set_handlers(SIG_DFL, SIG_DFL); }

StopFlag& InterruptGuard::stop() const { return interrupted; }
bool InterruptGuard::is_over() const { return ended.requested(); }

bool interrupt_requested() { return interrupted.requested(); }

}  // namespace talon
