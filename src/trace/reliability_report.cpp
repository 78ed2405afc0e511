#include "trace/reliability_report.h"

#include <fmt/format.h>

namespace talon {

Table reliability_table(const Reliability& reliability) {
  Table table{
      .columns = {"depth", "trials", "error before", "error after", "Brier before", "Brier after"}};
  for (int depth = 0; depth <= Reliability::kDepths; ++depth) {
    if (reliability.before(depth).trials() == 0) continue;
    const std::string name =
        depth == 0 ? "all" : fmt::format("{}{}", depth, depth == Reliability::kDepths ? "+" : "");
    table.rows.push_back({name, fmt::format("{}", reliability.before(depth).trials()),
                          fmt::format("{:.4f}", reliability.before(depth).calibration_error()),
                          fmt::format("{:.4f}", reliability.after(depth).calibration_error()),
                          fmt::format("{:.4f}", reliability.before(depth).brier()),
                          fmt::format("{:.4f}", reliability.after(depth).brier())});
  }
  return table;
}

Report reliability_report(const Reliability& reliability, std::string_view subtitle) {
  return {.kind = ReportKind::calibration,
          .title = "Calibration of the drafter",
          .subtitle = std::string(subtitle),
          .tables = {{"numbers", reliability_table(reliability)}},
          .lines = reliability.lines()};
}

}  // namespace talon
