#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "report/table.h"

namespace talon {

/// What a page shows; each kind has its drawings (web/report/src/KIND.ts).
enum class ReportKind { spec, cost, kernels, calibration, tree, curves, load, field, pictures };
std::string_view name_of(ReportKind kind);

/// A page of drawings of JSON lines that a command printed, with tables that it worked out.
struct Report {
  struct Part {
    std::string heading;  // the page knows where it stands
    Table table;
  };
  ReportKind kind;
  std::string title, subtitle;
  std::vector<std::string> notes = {};  // paragraphs before everything else
  std::vector<Part> tables = {};
  std::vector<Json> lines = {};
  Json more = Json::object();  // what the drawings of this kind need besides
};

/// The report as one HTML file that holds all it shows and needs no network.
std::string html_of(const Report& report);
/// Throws Error with the path and the system's reason.
void write_html(const std::filesystem::path& file, const Report& report);

}  // namespace talon
