#include "cli/bench/bench_report.h"

#include <span>

#include "cli/terminal/console.h"
#include "core/error.h"
#include "io/atomic_file.h"

namespace talon {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace

void make_report_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) fail("--report: cannot make {}: {}", folder.string(), problem.message());
}

void write_report(const std::filesystem::path& folder, const std::string& name,
                  const Report& report, const std::string& markdown,
                  const std::vector<Json>& lines) {
  make_report_folder(folder);
  write_html(folder / (name + ".html"), report);
  write_text(folder / (name + ".md"), markdown);
  std::string text;
  for (const Json& line : lines)
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_text(folder / (name + ".jsonl"), text);
  note("report: {}", (folder / (name + ".html")).string());
}

}  // namespace talon
