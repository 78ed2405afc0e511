#include "bench/machine/cost_report.h"

#include <fmt/format.h>

namespace talon {
namespace {

double field(const Json& line, const char* key) { return line.at(key).get<double>(); }

std::string machine_text(const Json& closing) {
  const Json& machine = closing.at("machine");
  return fmt::format("{}, {} threads, commit {}", machine.at("processor").get<std::string>(),
                     closing.at("settings").at("threads").get<int>(),
                     closing.at("commit").get<std::string>());
}

}  // namespace

Table cost_table(std::span<const Json> lines) {
  Table table{{"context", "rows", "ms", "least", "most", "c(n)", "projections", "head", "attention",
               "rest", "GB/s", "GMAC/s", "limit ms", "% of limit"}};
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    table.rows.push_back({std::to_string(line["context"].get<int>()),
                          std::to_string(line["rows"].get<int>()), number(field(line, "ms"), 2),
                          number(field(line, "ms_least"), 2), number(field(line, "ms_most"), 2),
                          number(field(line, "c"), 2), number(field(line, "projections_ms"), 2),
                          number(field(line, "head_ms"), 2), number(field(line, "attention_ms"), 2),
                          number(field(line, "rest_ms"), 2), number(field(line, "gb_s"), 1),
                          number(field(line, "gmac_s"), 0), number(field(line, "limit_ms"), 2),
                          number(field(line, "percent_of_limit"), 0)});
  }
  return table;
}

Report cost_report(std::span<const Json> lines) {
  const Json& closing = lines.back();
  return {.kind = ReportKind::cost,
          .title = "Cost of a forward",
          .subtitle = closing.at("model").get<std::string>() + " on " + machine_text(closing),
          .notes = {fmt::format("The limit is the slower of reading all weights at {:.1f} GB/s and "
                                "multiplying at {:.0f} GMAC/s ({}), measured in the same process.",
                                field(closing, "bandwidth_gb_s"), field(closing, "multiply_gmac_s"),
                                closing.at("multiply_instruction").get<std::string>())},
          .tables = {{"numbers", cost_table(lines)}},
          .lines = {lines.begin(), lines.end()}};
}

Table kernel_table(std::span<const Json> lines) {
  Table table{{"kernels", "shape", "operation", "format", "context", "rows", "ms", "GB/s", "GMAC/s",
               "% of limit", "limit"}};
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    const auto word = [&](const char* key) { return line.at(key).get<std::string>(); };
    table.rows.push_back(
        {word("kernels"), word("shape"), word("op"), word("format"),
         line.contains("context") ? std::to_string(line["context"].get<int>()) : "",
         std::to_string(line["rows"].get<int>()), number(field(line, "ms"), 4),
         number(field(line, "gb_s"), 1), number(field(line, "gmac_s"), 0),
         number(field(line, "percent_of_limit"), 0), word("limit")});
  }
  return table;
}

Report kernel_report(std::span<const Json> lines) {
  return {.kind = ReportKind::kernels,
          .title = "Kernels",
          .subtitle = machine_text(lines.back()),
          .tables = {{"numbers", kernel_table(lines)}},
          .lines = {lines.begin(), lines.end()}};
}

}  // namespace talon
