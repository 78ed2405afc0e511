#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/report.h"

namespace talon {

/// What `talon bench image` says of each method in its last line, in the order of "methods":
/// {"method", "name" (the short one), ...}. REQUIRES: a line with "summary".
std::vector<Json> method_lines(const Json& closing);

/// What method_lines() says of a file that `talon bench image` wrote. Throws Error naming the file
/// and what was expected.
std::vector<Json> read_method_lines(const std::filesystem::path& file);

/// Lines of sets (compare_pictures) with the numbers of the method that drew each, by its
/// "pictures"; then methods without pictures.
std::vector<Json> with_methods(std::vector<Json> sets, const std::vector<Json>& methods);

/// Tables and drawings of such lines, of either kind.
Report image_report(const std::vector<Json>& lines, std::string subtitle);
std::string image_markdown(const std::vector<Json>& lines);

}  // namespace talon
