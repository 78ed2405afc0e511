#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/trace.h"
#include "tree/cost_profile.h"

namespace talon {

/// What rounds cost on a machine, as the simulator sees it.
struct MachineCurve {
  std::string name;
  std::string source;                          // where the numbers come from
  std::vector<std::pair<int, double>> checks;  // rows and milliseconds, ascending; at least one
  /// Of one pass of a draft head; negative: what the trace says.
  double pass_ms = -1;
  double pass_row_ms = 0;    // that each further row of a pass adds
  double first_pass_ms = 0;  // that the first pass of a draft adds: a check put the head out of the
                             // caches
  double rest_ms = 0;        // of a round beside draft and check
  int batch = 1;             // sequences that decode together

  /// Milliseconds of a check: interpolated, and beyond the ends as the nearest stretch goes on.
  double check_ms(int rows) const;
  CostProfile profile() const;
};

/// Machines to plan for; docs/benchmarks.md says what each stands for, docs/methods.md 8 where its
/// numbers come from.
const std::vector<MachineCurve>& built_in_curves();

/// A built-in name, or a file: {"name", "source", "checks": [[rows, ms], ...], "pass_ms",
/// "pass_row_ms", "first_pass_ms", "rest_ms", "batch"}, or the lines of `talon bench cost`. Throws
/// Error naming file and field, or listing the names.
MachineCurve find_curve(const std::string& name);

/// The machine that a trace was recorded on: for each number of rows the mean of its checks. Throws
/// Error if it has none.
MachineCurve recorded_curve(const Trace& trace);

}  // namespace talon
