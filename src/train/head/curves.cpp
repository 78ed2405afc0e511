#include "train/head/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "io/atomic_file.h"
#include "report/report.h"

namespace talon {
namespace {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream input(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

/// Rows as objects by the names of their columns; a number that is none is null.
Json json_of(const std::filesystem::path& file) {
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream input(line);
    for (std::string cell; std::getline(input, cell, ',');) cells.push_back(cell);
    return cells;
  };
  Json lines = Json::array();
  std::vector<std::string> names;
  for (const std::string& line : read_lines(file)) {
    const std::vector<std::string> cells = cells_of(line);
    if (names.empty()) {
      names = cells;
      continue;
    }
    Json& row = lines.emplace_back(Json::object());
    for (std::size_t i = 0; i < std::min(names.size(), cells.size()); ++i)
      row[names[i]] = std::strtod(cells[i].c_str(), nullptr);
  }
  return {{"name", file.stem().string()}, {"lines", lines}};
}

}  // namespace

void add_steps(CurveRow& row, std::string_view name, std::span<const double> values, int steps) {
  for (int step = 0; step < steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    row.emplace_back(fmt::format("{}_{}", name, step + 1), i < values.size() ? values[i] : NAN);
  }
}

CurveFile::CurveFile(std::filesystem::path file, std::int64_t from_iteration)
    : file_(std::move(file)) {
  std::string kept;
  for (const std::string& line : read_lines(file_)) {
    const bool header = kept.empty();
    if (header || std::atoll(line.c_str()) <= from_iteration) kept += line + "\n";
  }
  if (from_iteration == 0) kept.clear();
  write_file(file_, std::as_bytes(std::span(kept)));
}

void CurveFile::append(const CurveRow& row) {
  std::string header, values;
  for (const auto& [name, value] : row) {
    header += (header.empty() ? "" : ",") + name;
    values += fmt::format("{}{:.9g}", values.empty() ? "" : ",", value);
  }
  const bool empty = std::filesystem::file_size(file_) == 0;
  std::ofstream output(file_, std::ios::app);
  if (empty) output << header << "\n";
  output << values << "\n";
  output.flush();
  if (!output) fail("write {}: {}", file_.string(), std::strerror(errno));
}

void write_curve_page(const std::filesystem::path& page,
                      const std::vector<std::filesystem::path>& csv_files) {
  Report report{.kind = ReportKind::curves,
                .title = "Learning curves",
                .subtitle = page.parent_path().filename().string()};
  report.more["files"] = Json::array();
  for (const auto& file : csv_files) report.more["files"].push_back(json_of(file));
  write_html(page, report);
}

}  // namespace talon
