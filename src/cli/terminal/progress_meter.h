#pragma once

#include <cstdint>
#include <string>

#include "engine/stopwatch.h"

namespace talon {

/// Shows on standard error how far long work is: on a terminal one line with rate and time left,
/// rewritten in place; elsewhere a plain line every few seconds. Work that takes less than half a
/// second shows nothing.
class ProgressMeter {
 public:
  enum class Unit { bytes, items };
  explicit ProgressMeter(std::string label, Unit unit = Unit::items);
  ~ProgressMeter();
  ProgressMeter(const ProgressMeter&) = delete;
  ProgressMeter& operator=(const ProgressMeter&) = delete;

  /// `total` 0: not known.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string line(std::uint64_t done, std::uint64_t total) const;

  std::string label_;
  Unit unit_;
  bool terminal_;
  bool shown_ = false;
  double next_ms_;
  Stopwatch watch_;
};

/// "94.6 MB", "322 B": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace talon
