#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/trace.h"

namespace talon {

/// How many experts the rows of checks read, as the single-sequence rounds of a trace have it.
class RecordedExperts {
 public:
  explicit RecordedExperts(const Trace& trace);

  /// Of a model without experts.
  bool empty() const { return read_.empty(); }
  /// Of a check of `rows` rows on average; what lies behind the longest one adds as its last row.
  /// 0 if empty.
  double of(int rows) const;
  /// Of each row of a check how many it is the first to go to: the first ones as `known` says, all
  /// others as on average. Empty if this is.
  std::vector<std::int32_t> first_uses(int rows, std::span<const std::int32_t> known) const;

 private:
  std::vector<double> read_;  // by rows - 1
};

}  // namespace talon
