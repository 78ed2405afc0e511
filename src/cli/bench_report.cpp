#include "cli/bench_report.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cli/console.h"
#include "core/error.h"

namespace talon {
namespace {

std::ofstream open_for_writing(const std::string& folder, const std::string& name) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::ofstream file(path);
  if (!file)
    fail("--report: cannot write {}: {}", path.string(),
         problem ? problem.message() : std::strerror(errno));
  return file;
}

}  // namespace

BenchReport::BenchReport(std::string folder) : folder_(std::move(folder)) {
  if (!folder_.empty()) lines_ = open_for_writing(folder_, "spec.jsonl");
}

void BenchReport::line(const Json& json) {
  write_json(json);
  if (lines_.is_open()) lines_ << json.dump() << "\n" << std::flush;
}

void BenchReport::finish(const std::string& table) {
  if (folder_.empty()) return;
  std::ofstream file = open_for_writing(folder_, "spec.md");
  file << table << std::flush;
  if (!lines_ || !file) fail("--report: writing to {} failed: {}", folder_, std::strerror(errno));
}

std::string summary_table(const Json& summary) {
  std::string table =
      "| method | tok/s | speed-up | tau | worst question | same tokens "
      "|\n|---|---|---|---|---|---|\n";
  for (const auto& [method, values] : summary.items()) {
    table += fmt::format("| {} | {:.1f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", method,
                         values["tok_s"].get<double>(), values["speedup"].get<double>(),
                         values["tau"].get<double>(), values["worst"].get<double>(),
                         values["equal"].get<bool>() ? "yes" : "NO");
  }
  return table;
}

}  // namespace talon
