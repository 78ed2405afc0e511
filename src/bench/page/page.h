#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/page/plot.h"
#include "io/json.h"

namespace talon {

/// Cells are plain text. The first column is left-aligned, numbers are right-aligned.
struct PageTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows = {};
  std::string caption = {};
};

/// One HTML page that holds all it shows: tables, drawings and the data behind them. No network, no
/// script; it prints as it looks. All texts are plain and escaped here.
///
///   Page page("Speed", "SmolLM2 on 2 threads");
///   page.section("Overview", "What it says.");
///   page.add(table);
///   page.add(plot);
///   page.embed("spec", json);
///   page.write(folder / "report.html");
class Page {
 public:
  Page(std::string_view title, std::string_view subtitle);
  /// Begins a section; what is added next belongs to it. `text` may be empty.
  void section(std::string_view heading, std::string_view text = {});
  void paragraph(std::string_view text);
  void add(const PageTable& table);
  void add(const XyPlot& plot);
  void add(const BarChart& chart);
  /// A drawing as an <svg> element.
  void figure(const std::string& svg);
  /// Keeps `json` in the page as <script type="application/json" id="...">, for other programs.
  void embed(std::string_view id, const Json& json);

  std::string html() const;
  /// Throws Error with the path and the system's reason.
  void write(const std::filesystem::path& file) const;

 private:
  std::string title_;
  std::string subtitle_;
  std::string contents_;  // links to the sections
  std::string body_;
  std::string data_;
  int sections_ = 0;
};

/// `text` with & < > " ' as entities.
std::string escape_html(std::string_view text);

/// The table as Markdown, for terminals and repositories.
std::string markdown_of(const PageTable& table);

}  // namespace talon
