#include "report/report.h"

#include <array>
#include <span>
#include <utility>

#include "core/error.h"
#include "io/atomic_file.h"
#include "report/page.h"

namespace talon {
namespace {

constexpr std::string_view kDataBegin = R"(<script type="application/json" id="talon-data">)";
constexpr std::string_view kNoData = "null";

constexpr std::array<std::pair<ReportKind, std::string_view>, 9> kKinds = {
    {{ReportKind::spec, "spec"},
     {ReportKind::cost, "cost"},
     {ReportKind::kernels, "kernels"},
     {ReportKind::calibration, "calibration"},
     {ReportKind::tree, "tree"},
     {ReportKind::curves, "curves"},
     {ReportKind::load, "load"},
     {ReportKind::field, "field"},
     {ReportKind::pictures, "pictures"}}};

Json json_of(const Report& report) {
  Json json = report.more;
  json["kind"] = name_of(report.kind);
  json["title"] = report.title;
  json["subtitle"] = report.subtitle;
  json["notes"] = report.notes;
  json["lines"] = report.lines;
  json["tables"] = Json::array();
  for (const Report::Part& part : report.tables) {
    json["tables"].push_back({{"heading", part.heading},
                              {"note", part.table.caption},
                              {"columns", part.table.columns},
                              {"rows", part.table.rows}});
  }
  return json;
}

/// As text in a <script>, which no text of the data may end.
std::string in_script(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string_view name_of(ReportKind kind) {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  throw Bug("a kind of report without a name");
}

std::string html_of(const Report& report) {
  std::string page(report_page());
  const std::size_t begin = page.find(kDataBegin);
  expects(begin != page.npos, "a page with a place for data");
  page.replace(begin + kDataBegin.size(), kNoData.size(), in_script(json_of(report)));
  return page;
}

void write_html(const std::filesystem::path& file, const Report& report) {
  const std::string text = html_of(report);
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace talon
