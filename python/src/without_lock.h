#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <shared_mutex>
#include <thread>

namespace talon::python {

/// Before 3.14 Python unwinds a daemon thread that takes the interpreter's lock when the
/// interpreter has ended, which frames of C++ do not survive. So who takes it passes a door.
inline std::shared_mutex door;
inline std::atomic<std::thread::id> ender;  // needs no door

/// Once the interpreter ends, a thread waits here for the end of the process.
inline std::shared_lock<std::shared_mutex> pass_door() {
  std::shared_lock passing(door, std::defer_lock);
  if (ender.load() != std::this_thread::get_id()) passing.lock();
  return passing;
}

/// Gives the interpreter's lock away, and takes it back in the end.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() {
    const auto passing = pass_door();
    PyEval_RestoreThread(state_);
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes it within.
inline nanobind::gil_scoped_acquire take_lock() {
  const auto passing = pass_door();
  return nanobind::gil_scoped_acquire();
}

/// For atexit: those in the door come through, all others find it closed.
inline void end_interpreter() {
  const WithoutLock free;
  ender = std::this_thread::get_id();
  door.lock();
}

}  // namespace talon::python
