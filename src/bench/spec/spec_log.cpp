#include "bench/spec/spec_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/sha256.h"

namespace talon {
namespace {

std::string text_of(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string run_fingerprint(const Json& settings) {
  const std::string text = text_of(settings);
  return sha256_of(std::as_bytes(std::span(text))).substr(0, 8);
}

SpecLog::SpecLog(std::filesystem::path file, std::string run,
                 const std::vector<std::string>& methods)
    : file_(std::move(file)), run_(std::move(run)) {
  if (file_.empty()) return;
  const std::string doing = "write results " + file_.string();
  const std::string taken = "another run writes them: give each its own --output";
  std::optional<FileLock> before;
  std::error_code problem;
  const bool is_there = std::filesystem::exists(file_, problem);
  if (problem) fail("{}: {}", doing, problem.message());
  if (is_there) {
    before.emplace(file_, doing, taken);
    read(methods);
  }
  std::string kept;
  for (const SpecCell& cell : known_) kept += text_of(line_of(cell));
  write_file(file_, std::as_bytes(std::span(kept)));
  lock_.emplace(file_, doing, taken);
  output_.open(file_, std::ios::binary | std::ios::app);
  if (!output_) fail("{}: {}", doing, std::strerror(errno));
}

void SpecLog::read(const std::vector<std::string>& methods) {
  const SpecFile before = read_spec_file(file_);
  std::map<std::string, std::set<std::string>> answered;  // methods by condition
  for (std::size_t i = 0; i < before.lines.size(); ++i) {
    const auto& [cell, run] = before.lines[i];
    if (run != run_) {
      fail(
          "go on with {}, line {}: measured with other settings, files or questions, by another "
          "build or on another machine (run \"{}\", this is \"{}\"): give another --output or "
          "remove the file",
          file_.string(), i + 1, run, run_);
    }
    if (cell.error.empty()) answered[condition_of(cell)].insert(cell.method);
  }
  const std::set<std::string> all(methods.begin(), methods.end());
  for (const auto& [condition, who] : answered) {
    if (who == all) conditions_.insert(condition);
  }
  for (const SpecFile::Line& line : before.lines) {
    if (is_known(condition_of(line.cell))) known_.push_back(line.cell);
  }
}

Json SpecLog::line_of(const SpecCell& cell) const {
  Json line = json_of(cell);
  line["run"] = run_;
  return line;
}

void SpecLog::write(const Json& line) {
  if (!output_.is_open()) return;
  output_ << text_of(line) << std::flush;
  if (!output_) fail("write results {}: the file takes no more", file_.string());
}

}  // namespace talon
