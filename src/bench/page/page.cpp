#include "bench/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "io/atomic_file.h"

namespace talon {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; border-bottom: 1px solid #ccc; }
.subtitle { color: #555; margin: .2rem 0 1rem; } nav a { margin-right: 1rem; } a { color: #0a5c99; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .93em; margin: .8rem 0; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; color: #555; font-size: .85rem; padding-top: .3rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #e2e2e2; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #999; vertical-align: bottom; white-space: normal; } th:first-child, td:first-child { text-align: left; }
td:first-child { font-family: ui-monospace, monospace; font-size: .92em; } td:last-child { white-space: normal; }
figure { margin: 1rem 0; } svg { width: 100%; max-width: 46rem; height: auto; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } nav { display: none; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } figure { max-width: 16cm; } .wide { overflow: visible; } th, td { padding: .1rem .35rem; font-size: 8pt; } td:first-child { white-space: normal; overflow-wrap: anywhere; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

/// Inside a script element only "</" and "<!" could end or change it.
std::string safe_in_script(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string markdown_of(const PageTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) {
      text += ' ';
      for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
      text += " |";
    }
    return text + "\n";
  };
  std::string text = line(table.columns);
  text += "|";
  for (std::size_t i = 0; i < table.columns.size(); ++i) text += i == 0 ? "---|" : "---:|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text;
}

Page::Page(std::string_view title, std::string_view subtitle)
    : title_(escape_html(title)), subtitle_(escape_html(subtitle)) {}

void Page::section(std::string_view heading, std::string_view text) {
  ++sections_;
  const std::string name = escape_html(heading);
  fmt::format_to(std::back_inserter(contents_), "<a href=\"#s{}\">{}</a>\n", sections_, name);
  fmt::format_to(std::back_inserter(body_), "<h2 id=\"s{}\">{}</h2>\n", sections_, name);
  if (!text.empty()) paragraph(text);
}

void Page::paragraph(std::string_view text) { body_ += "<p>" + escape_html(text) + "</p>\n"; }

void Page::add(const PageTable& table) {
  body_ += "<div class=\"wide\"><table>";
  if (!table.caption.empty()) body_ += "<caption>" + escape_html(table.caption) + "</caption>";
  body_ += "<thead><tr>";
  for (const std::string& column : table.columns) body_ += "<th>" + escape_html(column) + "</th>";
  body_ += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    body_ += "<tr>";
    for (const std::string& cell : row) body_ += "<td>" + escape_html(cell) + "</td>";
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Page::add(const XyPlot& plot) { figure(svg_of(plot)); }
void Page::add(const BarChart& chart) { figure(svg_of(chart)); }

void Page::figure(const std::string& svg) { body_ += "<figure>" + svg + "</figure>\n"; }

void Page::embed(std::string_view id, const Json& json) {
  fmt::format_to(std::back_inserter(data_),
                 "<script type=\"application/json\" id=\"{}\">{}</script>\n", escape_html(id),
                 safe_in_script(json));
}

std::string Page::html() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"subtitle\">{2}</p>\n<nav>{3}</nav>\n{4}{5}</body></html>\n",
      title_, kStyle, subtitle_, contents_, body_, data_);
}

void Page::write(const std::filesystem::path& file) const {
  const std::string text = html();
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace talon
