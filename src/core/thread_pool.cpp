#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/machine/processors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {
namespace {

// A pause takes between 10 and 50 ns, by processor, so what counts is time. Longer than any gap
// inside a step or between two of them, since a worker that sleeps takes long to wake.
constexpr std::chrono::microseconds kSpinBeforeSleep{400};
// Then a processor may be shared, and who is waited for may be the one that waits for it.
constexpr std::chrono::microseconds kSpinBeforeYield{20};

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

/// Waits, politely, until done() holds.
template <typename Done>
void wait_until(const Done& done) {
  SpinTime spin(kSpinBeforeYield);
  while (!done()) {
    if (spin.is_over()) {
      std::this_thread::yield();
    } else {
      relax();
    }
  }
}

void pin_thread(pthread_t thread, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);  // a refusal only costs speed
}

}  // namespace

struct ThreadPool::State {
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> regions{0};  // that it was asked to take part in, or to stop
    std::thread thread;
  };
  struct alignas(64) Counter {
    std::atomic<std::size_t> value{0};
  };
  /// How much of a worker's part was taken, in the low kTakenBits, in the region of the other
  /// bits. Of an earlier region it counts as nothing, so nobody need clear all of them.
  struct alignas(64) Taken {
    std::atomic<std::uint64_t> value{0};
  };
  static constexpr int kTakenBits = 16;
  alignas(64) std::atomic<int> running{0};  // workers that have not finished the region
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<std::uint32_t> phase{0};
  std::array<Counter, kMaxLoops> next_index;
  std::deque<Taken> taken;
  std::uint64_t region = 0;
  std::atomic<bool> stopping{false};
  Erased body = nullptr;
  void* context = nullptr;
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::deque<Worker> workers;  // without the caller
  const pid_t process = getpid();

  void work(int worker) noexcept {
    try {
      body(context, worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  }

  /// Workers that are not active are not asked, and go to sleep.
  void ask(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      workers[i].regions.fetch_add(1, std::memory_order_release);
      workers[i].regions.notify_one();
    }
  }

  void worker_loop(int worker, const std::atomic<std::uint32_t>& regions) {
    for (std::uint32_t seen = 0;; ++seen) {
      SpinTime polite(kSpinBeforeYield);
      SpinTime awake(kSpinBeforeSleep);
      while (regions.load(std::memory_order_acquire) == seen) {
        if (awake.is_over()) {
          regions.wait(seen, std::memory_order_acquire);
        } else if (polite.is_over()) {
          std::this_thread::yield();
        } else {
          relax();
        }
      }
      if (stopping.load(std::memory_order_relaxed)) return;
      work(worker);
      running.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
};

ThreadPool::ThreadPool(int threads, bool pin)
    : threads_(threads), active_(threads), state_(new State) {
  expects(threads >= 1, "a thread pool has at least one thread");
  state_->taken.resize(static_cast<std::size_t>(threads));
  const std::vector<int> processors = allowed_processors();
  const bool one_each =
      threads == static_cast<int>(processors.size()) && threads == available_processors();
  try {
    for (int number = 1; number < threads; ++number) {
      State::Worker& worker = state_->workers.emplace_back();
      worker.thread = std::thread(
          [state = state_.get(), number, &worker] { state->worker_loop(number, worker.regions); });
      if (pin && one_each) {
        pin_thread(worker.thread.native_handle(), processors[static_cast<std::size_t>(number)]);
      }
    }
  } catch (const std::system_error& error) {
    stop();
    fail("start {} threads: number {} could not be started: {}", threads,
         state_->workers.size() + 1, error.what());
  } catch (...) {  // out of memory
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  // A fork has none of the threads: it has nobody to wait for, and what they use stays.
  if (state_->process == getpid())
    stop();
  else
    static_cast<void>(state_.release());
}

void ThreadPool::stop() {
  state_->stopping = true;
  state_->ask(state_->workers.size());
  for (State::Worker& worker : state_->workers) {
    if (worker.thread.joinable()) worker.thread.join();  // else it was never started
  }
}

void ThreadPool::set_active(int workers) {
  expects(workers >= 1 && workers <= threads_, "as many workers as the pool has");
  active_ = workers;
}

void ThreadPool::adapt() {
  if (threads_ > 1) choice_.emplace(threads_);
}

void ThreadPool::learn(double work, WorkerChoice::Time begin) {
  choice_->learn(work, begin, WorkerChoice::Clock::now());
  set_active(choice_->workers());
}

void ThreadPool::run_erased(Erased body, void* context) {
  State& state = *state_;
  for (auto& counter : state.next_index) counter.value.store(0, std::memory_order_relaxed);
  ++state.region;
  state.body = body;
  state.context = context;
  state.running.store(active_ - 1, std::memory_order_relaxed);
  state.ask(static_cast<std::size_t>(active_ - 1));
  state.work(0);
  wait_until([&] { return state.running.load(std::memory_order_acquire) == 0; });
  if (state.failure) {
    const std::exception_ptr failure = std::exchange(state.failure, nullptr);
    std::rethrow_exception(failure);
  }
}

void ThreadPool::barrier() {
  if (active_ == 1) return;
  State& state = *state_;
  const std::uint32_t phase = state.phase.load(std::memory_order_acquire);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == active_) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.phase.fetch_add(1, std::memory_order_release);
    return;
  }
  wait_until([&] { return state.phase.load(std::memory_order_acquire) != phase; });
}

std::size_t ThreadPool::take(int worker) {
  const std::uint64_t none = state_->region << State::kTakenBits;
  std::atomic<std::uint64_t>& taken = state_->taken[static_cast<std::size_t>(worker)].value;
  std::uint64_t before = taken.load(std::memory_order_relaxed);
  std::uint64_t now;
  do {
    now = before < none ? none : before;
  } while (!taken.compare_exchange_weak(before, now + 1, std::memory_order_relaxed));
  return now - none;
}

std::size_t ThreadPool::next(int loop, std::size_t step) {
  return state_->next_index[static_cast<std::size_t>(loop)].value.fetch_add(
      step, std::memory_order_relaxed);
}

}  // namespace talon
