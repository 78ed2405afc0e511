#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>

#include "core/worker_choice.h"

namespace talon {

/// Persistent workers for short parallel regions (microseconds each, hundreds per token). The
/// calling thread is worker 0. A waiting worker spins for a moment, then lets others have its
/// processor, then sleeps: an idle engine costs nothing, and a busy machine is shared. One region
/// at a time: run() may be called from one thread at a time, and not from inside a region.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller; see worker_count() (core/machine/processors.h) for how many
  /// are worth having. With `pin`, workers that are as many as the processors of this process, and
  /// may use them all, are bound to one each; otherwise the system places them, since other
  /// processes would bind theirs to the same ones. Throws Error if a thread cannot be started.
  explicit ThreadPool(int threads, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /// Workers of the next region, at most threads(); the others sleep. Changes only once adapt() was
  /// called, at the end of a timed region.
  int active() const { return active_; }

  /// From here on as many workers are active as finish timed regions soonest (WorkerChoice).
  void adapt();
  /// Whether others took processors from the last timed regions, or fewer workers are active for
  /// their sake.
  bool is_disturbed() const { return choice_ && choice_->is_disturbed(); }

  /// Calls body(worker) once on each active worker, worker in [0, active()), and returns when all
  /// are done. If bodies throw, one of the exceptions is rethrown here after all have finished.
  /// Does not allocate.
  template <typename Body>
  void run(Body&& body) {
    using Function = std::remove_reference_t<Body>;
    run_erased([](void* context, int worker) { (*static_cast<Function*>(context))(worker); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }
  /// The same for a region of `work` > 0 units, in any measure in which regions of equal work are
  /// alike.
  template <typename Body>
  void run_timed(double work, Body&& body) {
    if (!choice_) return run(body);
    const auto begin = WorkerChoice::Clock::now();
    run(body);
    learn(work, begin);
  }

  /// Inside a region: waits until every active worker has arrived. Each must call it the same
  /// number of times, and a body that uses it must not throw.
  void barrier();

  /// Inside a region: hands out the indices [0, count) in steps, each once, whoever asks first
  /// (dynamic tiles). Returns the first index of the caller's next step, at or past the end when
  /// none is left. `loop` is 0 for the first loop of the region, 1 for the second, up to kMaxLoops
  /// - 1; every worker uses the same numbers.
  std::size_t next(int loop, std::size_t step = 1);
  static constexpr int kMaxLoops = 8;

  /// Inside a region, once in it and by every active worker: calls body(first, count), each time
  /// for some neighbours, so that each of the indices [0, total) is handed out once. A worker gets
  /// three quarters of its part in one call and the last quarter in four; when that is gone, what
  /// is left of the last quarters of others, who may have lost their processors.
  template <typename Body>
  void share(int worker, std::size_t total, const Body& body) {
    for (int i = 0; i < active_; ++i) {
      const int owner = (worker + i) % active_;
      const std::size_t begin = end_of_part(owner - 1, total), end = end_of_part(owner, total);
      const std::size_t rest = active_ == 1 ? 0 : (end - begin) / 4, first = end - rest;
      if (i == 0 && begin < first) body(begin, first - begin);
      for (std::size_t n; (n = take(owner)) < kStepsOfRest;) {
        const std::size_t from = rest * n / kStepsOfRest, to = rest * (n + 1) / kStepsOfRest;
        if (from < to) body(first + from, to - from);
      }
    }
  }

 protected:
  void set_active(int workers);

 private:
  static constexpr std::size_t kStepsOfRest = 4;
  std::size_t end_of_part(int worker, std::size_t total) const {
    return total * static_cast<std::size_t>(worker + 1) / static_cast<std::size_t>(active_);
  }
  /// How often it was called for `worker` before in this region.
  std::size_t take(int worker);

  struct State;
  using Erased = void (*)(void* context, int worker);
  void run_erased(Erased body, void* context);
  void learn(double work, WorkerChoice::Time begin);
  void stop();

  int threads_;
  int active_;
  std::optional<WorkerChoice> choice_;
  std::unique_ptr<State> state_;
};

}  // namespace talon
