#pragma once

#include <string>
#include <vector>

namespace talon {

/// Cells are plain text. The first column is left-aligned, numbers are right-aligned.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows = {};
  std::string caption = {};
};

/// A number of a cell, with so many digits after the point; a dash if it is not finite.
std::string number(double value, int digits);

/// The table as Markdown, for terminals and repositories; without its caption.
std::string markdown_of(const Table& table);

}  // namespace talon
