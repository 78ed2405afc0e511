#include "bench/spec/spec_report.h"

#include <fmt/format.h>

#include "bench/spec/spec_summary.h"
#include "bench/spec/spec_table.h"

namespace talon {

Report spec_report(std::span<const SpecCell> cells, const std::vector<std::string>& methods,
                   const std::vector<Json>& lines) {
  const Json& closing = lines.back();
  const std::vector<MethodSummary> all = summarize(cells, methods);
  Report report{.kind = ReportKind::spec,
                .title = "Talon: drafters beside plain decoding",
                .subtitle = spec_subtitle(closing),
                .lines = lines};
  if (closing.value("partial", false))
    report.notes.emplace_back("The run was stopped early: this is what it had answered by then.");
  if (const int skipped = closing.value("skipped", 0); skipped > 0)
    report.notes.push_back(fmt::format("{} questions did not fit the model's context.", skipped));
  if (const std::string bound = spec_bound(all.front(), closing); !bound.empty())
    report.notes.push_back(bound);
  report.tables.push_back({"overview", spec_table(all)});
  report.tables.back().table.caption = kSpecTableNote;
  Table temperatures = temperature_table(cells, methods);
  if (!temperatures.rows.empty()) {
    temperatures.caption =
        "By temperature: speed-up over plain decoding, tokens per check, and the "
        "worst question.";
    report.tables.push_back({"overview", std::move(temperatures)});
  }
  report.more["methods"] = methods;
  return report;
}

}  // namespace talon
