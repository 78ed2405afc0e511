#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace talon {

/// Persistent workers for short parallel regions (microseconds each, hundreds per token). The calling thread is worker 0.
/// Workers spin for a bounded time between regions, then sleep, so an idle engine costs nothing.
/// One region at a time: run() may be called from one thread at a time, and not from inside a region.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller. With `pin`, worker i >= 1 is bound to the i-th processor this process may use
  /// (and pin_caller() does the same for worker 0); without it the system places them.
  explicit ThreadPool(int threads, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Binds the calling thread to the processor of worker 0. For programs whose main thread does nothing else.
  void pin_caller();

  /// Calls body(worker) once on each worker, worker in [0, threads()), and returns when all are done. If bodies throw,
  /// one of the exceptions is rethrown here after all have finished. Does not allocate.
  template <typename Body>
  void run(Body&& body) {
    using Function = std::remove_reference_t<Body>;
    run_erased([](void* context, int worker) { (*static_cast<Function*>(context))(worker); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

  /// Inside a region: waits until every worker has arrived. Every worker must call it the same number of times, and a
  /// body that uses it must not throw.
  void barrier();

  /// Inside a region: hands out the indices [0, count) in steps, each once, whoever asks first (dynamic tiles). Returns the
  /// first index of the caller's next step, at or past the end when none is left. `loop` is 0 for the first loop of
  /// the region, 1 for the second, up to kMaxLoops - 1; every worker uses the same numbers.
  std::size_t next(int loop, std::size_t step = 1);
  static constexpr int kMaxLoops = 8;

 private:
  struct State;
  using Erased = void (*)(void* context, int worker);
  void run_erased(Erased body, void* context);

  int threads_;
  std::unique_ptr<State> state_;
};

/// The number of processors this process may use.
int available_processors();

}  // namespace talon
