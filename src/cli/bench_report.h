#pragma once

#include <fstream>
#include <string>

#include "io/json.h"

namespace talon {

/// JSON lines of a bench on standard output and, with a folder, also in spec.jsonl there.
class BenchReport {
 public:
  /// `folder` empty: standard output only. Creates the folder; throws Error if it cannot.
  explicit BenchReport(std::string folder);
  void line(const Json& json);
  /// Writes spec.md with `table`.
  void finish(const std::string& table);

 private:
  std::string folder_;
  std::ofstream lines_;
};

/// A Markdown table of the summary of `talon bench spec`.
std::string summary_table(const Json& summary);

}  // namespace talon
