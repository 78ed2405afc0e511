#pragma once

#include <string>
#include <vector>

#include "bench/spec/spec_cell.h"
#include "report/report.h"

namespace talon {

/// Runs of `talon bench spec` on several models as one comparison: a line for each model,
/// temperature, kind of questions ("all" and each subtask) and method, as docs/benchmarks.md tells,
/// and a closing one with what the runs say of themselves. Methods come in the runs' order, plain
/// decoding first. Throws Error for a run without a closing line, or a model that comes twice.
std::vector<Json> field_lines(const std::vector<SpecFile>& runs);

/// Tables and drawings of such lines.
Report field_report(const std::vector<Json>& lines);
std::string field_markdown(const std::vector<Json>& lines);

}  // namespace talon
