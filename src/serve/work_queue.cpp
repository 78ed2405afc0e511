#include "serve/work_queue.h"

#include <limits>
#include <utility>

namespace talon {

WorkQueue::WorkQueue(int threads, std::size_t most) : most_(most) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkQueue::~WorkQueue() { stop(); }

void WorkQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkQueue::add(std::function<void()> work) { return add(std::move(work), most_); }

void WorkQueue::add_always(std::function<void()> work) {
  add(std::move(work), std::numeric_limits<std::size_t>::max());
}

bool WorkQueue::add(std::function<void()> work, std::size_t most) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_.size() >= most) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void WorkQueue::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      work();
    } catch (...) {
    }
  }
}

}  // namespace talon
