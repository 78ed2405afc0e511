#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/spec/spec_cell.h"
#include "io/file_lock.h"

namespace talon {

/// The results of `talon bench spec` on their way into a file, in which a run that was cut short
/// goes on where it stopped. Each line is flushed as it is written.
class SpecLog {
 public:
  /// `file` empty: nothing is kept. What is there already must be of the same `run` (fingerprint of
  /// what must agree); questions that lack the answer of one of `methods` are dropped to be asked
  /// again, and so is the closing line.
  /// Throws Error naming the file and line, or that another run writes the file.
  SpecLog(std::filesystem::path file, std::string run, const std::vector<std::string>& methods);

  /// From before, in the order of the file.
  const std::vector<SpecCell>& known() const { return known_; }
  bool is_known(const std::string& condition) const { return conditions_.contains(condition); }

  /// The line of a cell, as it is written.
  Json line_of(const SpecCell& cell) const;
  void write(const Json& line);

 private:
  void read(const std::vector<std::string>& methods);

  std::filesystem::path file_;
  std::string run_;
  std::vector<SpecCell> known_;
  std::set<std::string> conditions_;
  std::optional<FileLock> lock_;  // of the file
  std::ofstream output_;
};

/// Eight hexadecimal digits of what must agree for two runs to be one.
std::string run_fingerprint(const Json& settings);

}  // namespace talon
