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

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // no SA_RESTART: Ctrl-C also ends a wait for input
  for (const int signal : ending_signals()) sigaction(signal, &action, nullptr);
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
  set_handler(on_interrupt);
}

InterruptGuard::~InterruptGuard() { set_handler(SIG_DFL); }

StopFlag& InterruptGuard::stop() const { return interrupted; }
bool InterruptGuard::is_over() const { return ended.requested(); }

}  // namespace talon
