#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace talon {

/// Named numbers of one moment of a run, in the order of their columns.
using CurveRow = std::vector<std::pair<std::string, double>>;

/// Adds NAME_1 to NAME_steps; those without a value are no numbers.
void add_steps(CurveRow& row, std::string_view name, std::span<const double> values, int steps);

/// A CSV file that grows by rows of the same columns; column "iteration" comes first. Reopened by a
/// resumed run, it forgets the rows after the iteration that it resumes from.
class CurveFile {
 public:
  /// Throws Error with the path and the system's reason.
  CurveFile(std::filesystem::path file, std::int64_t from_iteration);
  void append(const CurveRow& row);
  const std::filesystem::path& path() const { return file_; }

 private:
  std::filesystem::path file_;
};

/// One page with every column of the CSV files drawn over the number of trained pairs; needs
/// nothing besides itself.
void write_curve_page(const std::filesystem::path& page,
                      const std::vector<std::filesystem::path>& csv_files);

}  // namespace talon
