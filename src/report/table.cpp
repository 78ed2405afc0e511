#include "report/table.h"

#include <fmt/format.h>

#include <cmath>

namespace talon {

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}

std::string markdown_of(const Table& table) {
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

}  // namespace talon
