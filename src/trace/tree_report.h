#pragma once

#include <string>
#include <vector>

#include "report/report.h"
#include "trace/trace.h"

namespace talon {

/// A trace on one page: what its rounds add up to, accepted tokens along the text, where the time
/// went, and `drawings` trees: that of the round that accepted most first, then others spread over
/// the text. name: what is shown of the file.
Report tree_report(const Trace& trace, const std::string& name, int drawings);

/// Which rounds are drawn.
std::vector<std::size_t> rounds_to_draw(const Trace& trace, int drawings);

}  // namespace talon
