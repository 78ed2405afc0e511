#pragma once

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "c/status.h"

namespace talon {

/// Lets threads have their turn in the order in which they came, so that one that steps in a loop
/// keeps nobody waiting for longer than a step.
class Turns {
 public:
  /// From here on nobody has a turn in a fork of this process: the threads that compute are not
  /// in it.
  void stay_in_process() { process_ = getpid(); }
  bool is_elsewhere() const { return process_ != 0 && process_ != getpid(); }

  /// Throws UsageError if it is this thread's turn already: it would wait for itself.
  void lock() {
    if (is_elsewhere()) {
      throw UsageError(
          fmt::format("model: expected a call of process {}, which opened it, found one of its "
                      "fork {}, where a model of several threads has none of them",
                      process_, getpid()));
    }
    std::unique_lock guard(mutex_);
    if (owner_ == std::this_thread::get_id()) {
      throw UsageError("called from a callback of a call that it would wait for");
    }
    const std::uint64_t mine = last_++;
    changed_.wait(guard, [&] { return now_ == mine; });
    owner_ = std::this_thread::get_id();
  }
  bool is_mine() {
    const std::lock_guard guard(mutex_);
    return owner_ == std::this_thread::get_id();
  }
  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      owner_ = {};
      ++now_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = 0, now_ = 0;
  std::thread::id owner_;
  pid_t process_ = 0;  // 0: any
};

using Turn = std::lock_guard<Turns>;

/// For what gives memory back, from callbacks and in forks, too: takes the turn unless it is this
/// thread's already or nobody has one.
class TurnToFree {
 public:
  explicit TurnToFree(Turns& turns)
      : turns_(turns.is_elsewhere() || turns.is_mine() ? nullptr : &turns) {
    if (turns_) turns_->lock();
  }
  ~TurnToFree() {
    if (turns_) turns_->unlock();
  }
  TurnToFree(const TurnToFree&) = delete;
  TurnToFree& operator=(const TurnToFree&) = delete;

 private:
  Turns* turns_;
};

}  // namespace talon
