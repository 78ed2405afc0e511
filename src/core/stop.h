#pragma once

#include <atomic>

namespace talon {

/// Asks long work to end soon. Set from a signal handler or another thread; checked between steps.
class StopFlag {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  void clear() { requested_.store(false, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
};

}  // namespace talon
