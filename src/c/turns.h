#pragma once

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
  /// Throws UsageError if it is this thread's turn already: it would wait for itself.
  void lock() {
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
};

using Turn = std::lock_guard<Turns>;

/// For what gives memory back, from callbacks, too: takes the turn unless it is this thread's
/// already.
class TurnToFree {
 public:
  explicit TurnToFree(Turns& turns) : turns_(turns.is_mine() ? nullptr : &turns) {
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
