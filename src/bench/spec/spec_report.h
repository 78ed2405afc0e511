#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/spec/spec_cell.h"
#include "report/report.h"

namespace talon {

/// The report of `talon bench spec`: tables and drawings of everything the cells say. `lines`: of
/// the results, the closing one last.
Report spec_report(std::span<const SpecCell> cells, const std::vector<std::string>& methods,
                   const std::vector<Json>& lines);

}  // namespace talon
