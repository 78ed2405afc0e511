#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/simulate/recorded_experts.h"
#include "trace/trace.h"
#include "tree/cost_profile.h"

namespace talon {

/// What rounds cost on a machine, as the simulator sees it.
struct MachineCurve {
  std::string name;
  std::string source;  // where the numbers come from
  // Rows and milliseconds, ascending; at least one. Of a mixture, rows that share one row's
  // experts.
  std::vector<std::pair<int, double>> checks;
  /// Of one pass of a draft head; negative: what the trace says.
  double pass_ms = -1;
  double pass_row_ms = 0;    // that each further row of a pass adds
  double first_pass_ms = 0;  // that the first pass of a draft adds: a check put the head out of the
                             // caches
  double rest_ms = 0;        // of a round beside draft and check
  int batch = 1;             // sequences that decode together
  double expert_ms = 0;      // that each expert adds which a check reads beyond those of one row

  /// Milliseconds of a check: interpolated, and beyond the ends as the nearest stretch goes on.
  /// further_experts: that it reads beyond those of one row.
  double check_ms(int rows, double further_experts = 0) const;
  /// As if it had been measured on the text of a trace.
  CostProfile profile(const RecordedExperts& experts) const;
};

/// Machines to plan for; docs/benchmarks.md says what each stands for, docs/methods.md 8 where its
/// numbers come from.
const std::vector<MachineCurve>& built_in_curves();

/// A built-in name, or a file: {"name", "source", "checks": [[rows, ms], ...], "pass_ms",
/// "pass_row_ms", "first_pass_ms", "rest_ms", "batch", "expert_ms"}, or the lines of `talon bench
/// cost`. Throws Error naming file and field, or listing the names.
MachineCurve find_curve(const std::string& name);

/// The machine that a trace was recorded on: for each number of rows the mean of its checks, and of
/// a mixture what an expert adds, by checks of as many rows. Throws Error if it has none.
MachineCurve recorded_curve(const Trace& trace);

}  // namespace talon
