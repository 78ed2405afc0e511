#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace talon {

/// A few threads for work that takes too long for the server's own. What it throws is passed over.
class WorkQueue {
 public:
  /// most: work that waits.
  WorkQueue(int threads, std::size_t most);
  /// Waits for work that runs; drops what waits.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// False if there is no room for it.
  bool add(std::function<void()> work);
  /// For work that something else bounds: there is always room.
  void add_always(std::function<void()> work);
  void stop();

 private:
  bool add(std::function<void()> work, std::size_t most);
  void run();

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace talon
