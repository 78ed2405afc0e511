#pragma once

#include <string_view>

#include "report/report.h"
#include "trace/reliability.h"

namespace talon {

Table reliability_table(const Reliability& reliability);
/// A diagram for each depth.
Report reliability_report(const Reliability& reliability, std::string_view subtitle);

}  // namespace talon
