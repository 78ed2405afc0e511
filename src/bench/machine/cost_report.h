#pragma once

#include <span>

#include "io/json.h"
#include "report/report.h"
#include "report/table.h"

namespace talon {

/// Lines as `talon bench cost` prints them, the closing one last.
Table cost_table(std::span<const Json> lines);
/// c(n), milliseconds beside the limit, and where they go, for each context.
Report cost_report(std::span<const Json> lines);

/// Lines as `talon bench kernels` prints them, the closing one last.
Table kernel_table(std::span<const Json> lines);
/// One roofline for each instruction set, shape and format: what is reached against rows, below
/// what the machine allows.
Report kernel_report(std::span<const Json> lines);

}  // namespace talon
