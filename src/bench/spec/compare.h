#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "trace/statistics.h"

namespace talon {

enum class CompareMetric { tok_s, speedup, tau };

/// How one thing that two runs measured has changed.
struct Change {
  std::string name;    // the method, or what a line of other benches is about
  std::string metric;  // "tok_s", "speedup", "tau" or "ms"
  double before = 0, after = 0;
  double ratio = 1;      // after / before
  Interval ratio_range;  // of the ratio; for spreads: the least and most that they allow
  int pairs = 0;         // questions, or 1
  bool is_known = true;  // enough questions to say anything
  bool lower_is_better = false;
  int broken = 0;  // questions with the plain tokens before and others, or no answer, after

  /// Changed for the worse by more than `tolerance` (0.02: 2 %), beyond doubt.
  bool worse(double tolerance) const;
  bool better(double tolerance) const;
};

/// Two files of JSON lines of `talon bench`. Of bench spec: each method over the questions that
/// both runs answered, by `metric`, with a paired bootstrap over questions. Of others: each line
/// that both have by its "ms" with "ms_least" and "ms_most"; a change is beyond doubt when the
/// spreads do not overlap. Throws Error naming file, line and field, and if they have nothing in
/// common.
std::vector<Change> compare_results(const std::filesystem::path& before,
                                    const std::filesystem::path& after, CompareMetric metric);

}  // namespace talon
