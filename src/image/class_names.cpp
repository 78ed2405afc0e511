#include "image/class_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "image/word_list.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

/// In small letters, without spaces around it.
std::string plain(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return lowered(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

/// The whole text, then its parts.
std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> names = {plain(text)};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(plain(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return names;
}

}  // namespace

ClassNames ClassNames::read(const std::filesystem::path& file, int classes) {
  const std::string doing = fmt::format("read {}", quote(file.string()));
  const MappedFile mapped(file);
  ClassNames names;
  names.texts_ = read_texts(parse_json(mapped.text(), doing), doing);
  if (std::ssize(names.texts_) != classes)
    fail("{}: expected {} classes, found {}", doing, classes, names.texts_.size());
  return names;
}

int ClassNames::find(std::string_view name) const {
  const std::string wanted = plain(name);
  std::vector<std::string> known;
  std::vector<int> whole, some;  // classes with that text, with that name
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    std::vector<std::string> names = names_of(texts_[i]);
    if (names[0] == wanted) whole.push_back(static_cast<int>(i));
    if (std::ranges::find(names, wanted) != names.end()) some.push_back(static_cast<int>(i));
    known.insert(known.end(), names.begin() + 1, names.end());
  }
  const std::vector<int>& found = whole.empty() ? some : whole;
  if (found.size() == 1) return found[0];
  if (!found.empty()) {
    throw UsageError(
        fmt::format("class: expected the name of one class, got {}, that of {}: ask "
                    "by number",
                    quote(name), fmt::join(found, " and ")));
  }
  throw UsageError(fmt::format("class: expected a number or a name, such as {}, got {}",
                               fmt::join(most_like(wanted, std::move(known)), ", "), quote(name)));
}

}  // namespace talon
