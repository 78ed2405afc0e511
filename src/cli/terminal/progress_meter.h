#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/stopwatch.h"

namespace talon {

/// Shows on standard error how far long work is: on a terminal that can write over a line one line
/// with rate and time left, rewritten in place; elsewhere a plain line every few seconds. Work that
/// takes less than half a second shows nothing.
class ProgressMeter {
 public:
  enum class Unit { bytes, items };
  explicit ProgressMeter(std::string label, Unit unit = Unit::items);
  ~ProgressMeter();
  ProgressMeter(const ProgressMeter&) = delete;
  ProgressMeter& operator=(const ProgressMeter&) = delete;

  /// `total` 0: not known. `before`: how much of what is done was done when the meter began.
  void update(std::uint64_t done, std::uint64_t total, std::uint64_t before = 0);

 private:
  std::string label_;
  Unit unit_;
  bool terminal_;
  bool shown_ = false;
  double next_ms_;
  Stopwatch watch_;
};

/// How far work is.
struct WorkState {
  ProgressMeter::Unit unit = ProgressMeter::Unit::items;
  std::uint64_t done = 0, total = 0;  // total 0: not known
  double seconds = 0;                 // so far
  std::uint64_t before = 0;           // of `done`, but not in these seconds
};
/// The line that a meter shows, of at most `columns` characters: where they are too few the label
/// is shortened, then the end.
std::string progress_line(std::string_view label, const WorkState& state, int columns);

/// "94.6 MB", "322 B": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace talon
