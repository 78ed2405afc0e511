#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace talon {

/// Tells what goes wrong while a server serves. Where all goes wrong its log stays readable: of
/// each kind it gets a note in ten seconds, with the number of those that were left out before. Any
/// thread.
class FaultNotes {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<void(const std::string& text)>;

  /// write: takes one line; may be empty.
  explicit FaultNotes(Write write) : write_(std::move(write)) {}
  /// kind: one of a few; begins the line. Passes over what is thrown on the way.
  void add(std::string_view kind, std::string_view what,
           Clock::time_point now = Clock::now()) noexcept;

 private:
  struct Kind {
    Clock::time_point next = Clock::time_point::min();  // from when on one is written
    int left_out = 0;
  };

  /// How many were left out before this one; -1: this one is, too.
  int left_out_before(std::string_view kind, Clock::time_point now);

  Write write_;
  std::mutex mutex_;
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace talon
