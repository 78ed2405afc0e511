#include "image/word_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kMostTexts = 1 << 20;

/// Letters to insert, remove or replace.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> read_texts(const Json& list, std::string_view doing) {
  if (!list.is_array() || list.size() > kMostTexts) {
    fail("{}: expected a list of at most {} texts, found {}", doing, kMostTexts,
         list.is_null()    ? "none"
         : list.is_array() ? fmt::to_string(list.size())
                           : std::string(list.type_name()));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string())
      fail("{}: entry {}: expected a text, found {}", doing, i, list[i].type_name());
  }
  return list.get<std::vector<std::string>>();
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::vector<std::string> most_like(std::string_view word, std::vector<std::string> known) {
  constexpr std::size_t kShown = 5;
  const std::string_view begin = word.substr(0, 64);
  std::ranges::stable_sort(known, {}, [&](const std::string& one) { return distance(begin, one); });
  known.resize(std::min(known.size(), kShown));
  return known;
}

}  // namespace talon
