#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {
namespace {

// A pause takes between 10 and 50 ns, by processor, so what counts is time. Longer than any gap
// inside a step or between two of them, since a worker that sleeps takes long to wake.
constexpr std::chrono::microseconds kSpinBeforeSleep{400};
// Then a processor may be shared: its other owner should run.
constexpr std::chrono::microseconds kSpinBeforeYield{100};

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Whether a wait that pauses between its calls has lasted for a time. Asks the clock now and then.
class SpinTime {
 public:
  explicit SpinTime(std::chrono::nanoseconds limit) : limit_(limit) {}
  bool is_over() {
    if (++spins_ % kSpinsPerLook != 0) return is_over_;
    const auto now = std::chrono::steady_clock::now();
    if (spins_ == kSpinsPerLook) start_ = now;
    is_over_ = now - start_ >= limit_;
    return is_over_;
  }

 private:
  static constexpr int kSpinsPerLook = 64;
  std::chrono::nanoseconds limit_;
  std::chrono::steady_clock::time_point start_;
  unsigned spins_ = 0;
  bool is_over_ = false;
};

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &set)) allowed.push_back(processor);
    }
  }
  if (allowed.empty()) allowed.push_back(0);
  return allowed;
}

void pin_thread(pthread_t thread, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);  // a refusal only costs speed
}

}  // namespace

struct ThreadPool::State {
  alignas(64) std::atomic<std::uint32_t> generation{
      0};                                   // counts regions; a change wakes the workers
  alignas(64) std::atomic<int> running{0};  // workers that have not finished the region
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<std::uint32_t> phase{0};
  struct alignas(64) Counter {
    std::atomic<std::size_t> value{0};
  };
  std::array<Counter, kMaxLoops> next_index;
  std::atomic<bool> stopping{false};
  Erased body = nullptr;
  void* context = nullptr;
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::vector<int> processors;
  std::vector<std::thread> workers;

  void work(int worker) noexcept {
    try {
      body(context, worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  }

  void worker_loop(int worker) {
    std::uint32_t seen = 0;
    while (true) {
      SpinTime spin(kSpinBeforeSleep);
      while (generation.load(std::memory_order_acquire) == seen) {
        if (spin.is_over()) {
          generation.wait(seen, std::memory_order_acquire);
        } else {
          relax();
        }
      }
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) return;
      work(worker);
      running.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
};

ThreadPool::ThreadPool(int threads, bool pin) : threads_(threads), state_(new State) {
  expects(threads >= 1, "a thread pool has at least one thread");
  state_->processors = allowed_processors();
  for (int worker = 1; worker < threads; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->worker_loop(worker); });
    if (pin && threads <= static_cast<int>(state_->processors.size())) {
      pin_thread(state_->workers.back().native_handle(),
                 state_->processors[static_cast<std::size_t>(worker)]);
    }
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  state_->generation.fetch_add(1, std::memory_order_release);
  state_->generation.notify_all();
  for (auto& worker : state_->workers) worker.join();
}

void ThreadPool::pin_caller() {
  if (threads_ <= static_cast<int>(state_->processors.size())) {
    pin_thread(pthread_self(), state_->processors[0]);
  }
}

void ThreadPool::run_erased(Erased body, void* context) {
  State& state = *state_;
  for (auto& counter : state.next_index) counter.value.store(0, std::memory_order_relaxed);
  state.body = body;
  state.context = context;
  if (threads_ > 1) {
    state.running.store(threads_ - 1, std::memory_order_relaxed);
    state.generation.fetch_add(1, std::memory_order_release);
    state.generation.notify_all();
  }
  state.work(0);
  SpinTime spin(kSpinBeforeYield);
  while (state.running.load(std::memory_order_acquire) != 0) {
    if (spin.is_over()) {
      std::this_thread::yield();
    } else {
      relax();
    }
  }
  if (state.failure) {
    const std::exception_ptr failure = std::exchange(state.failure, nullptr);
    std::rethrow_exception(failure);
  }
}

void ThreadPool::barrier() {
  if (threads_ == 1) return;
  State& state = *state_;
  const std::uint32_t phase = state.phase.load(std::memory_order_acquire);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.phase.fetch_add(1, std::memory_order_release);
    return;
  }
  SpinTime spin(kSpinBeforeYield);
  while (state.phase.load(std::memory_order_acquire) == phase) {
    if (spin.is_over()) {
      std::this_thread::yield();
    } else {
      relax();
    }
  }
}

std::size_t ThreadPool::next(int loop, std::size_t step) {
  return state_->next_index[static_cast<std::size_t>(loop)].value.fetch_add(
      step, std::memory_order_relaxed);
}

int available_processors() { return static_cast<int>(allowed_processors().size()); }

}  // namespace talon
