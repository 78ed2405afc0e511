#include "image/prompt_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "image/word_list.h"
#include "io/json.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::string_view kBetween = " ,\t\n";  // words of a prompt

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (kBetween.find(c) != std::string_view::npos) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// In letters of either case where none has those of the word and one alone is like it; else -1.
int find(const std::vector<std::string>& list, const std::string& word) {
  const auto found = std::ranges::find(list, word);
  if (found != list.end()) return static_cast<int>(found - list.begin());
  int alike = -1;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (lowered(list[i]) != lowered(word)) continue;
    if (alike >= 0) return -1;
    alike = static_cast<int>(i);
  }
  return alike;
}

std::vector<std::string> read_list(const Json& json, const char* key, const std::string& doing) {
  const auto found = json.find(key);
  const std::string reading = fmt::format("{}: {}", doing, key);
  auto list = read_texts(found == json.end() ? Json() : *found, reading);
  if (std::set(list.begin(), list.end()).size() != list.size())
    fail("{}: expected each text once, found one twice", reading);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].empty() && list[i].find_first_of(kBetween) == std::string::npos) continue;
    fail("{}: entry {}: expected a word without spaces and commas, found {}", reading, i,
         quote(list[i]));
  }
  return list;
}

}  // namespace

PromptWords::PromptWords(std::vector<std::string> words, std::vector<std::string> styles)
    : words_(std::move(words)), styles_(std::move(styles)) {}

PromptWords PromptWords::read(const std::filesystem::path& file) {
  const std::string doing = fmt::format("read {}", quote(file.string()));
  const MappedFile mapped(file);
  const Json json = parse_json(mapped.text(), doing);
  if (!json.is_object()) fail("{}: expected an object, found {}", doing, json.type_name());
  PromptWords words(read_list(json, "words", doing), read_list(json, "styles", doing));
  if (words.styles_.empty()) fail("{}: styles: expected at least one, found none", doing);
  return words;
}

std::vector<int> PromptWords::rows_of(std::string_view text, int length) const {
  expects(length > 0, "a place for the style");
  std::vector<std::string> words = split(text);
  const int style = words.empty() ? -1 : find(styles_, words.back());
  if (style < 0) {
    throw UsageError(fmt::format("prompt: expected words and then a style, {}, got {}",
                                 fmt::join(styles_, ", "), quote(text)));
  }
  words.pop_back();
  const auto most = static_cast<std::size_t>(length) - 1;
  if (words.size() > most) {
    throw UsageError(fmt::format("prompt: expected at most {} words before the style, got {}", most,
                                 words.size()));
  }
  std::vector<int> rows(static_cast<std::size_t>(length), null_word());
  for (std::size_t i = 0; i < words.size(); ++i) {
    rows[i] = find(words_, words[i]);
    if (rows[i] >= 0) continue;
    throw UsageError(fmt::format("prompt: expected words that the model knows, such as {}, got {}",
                                 fmt::join(most_like(words[i], words_), ", "), quote(words[i])));
  }
  rows.back() = static_cast<int>(words_.size()) + style;
  return rows;
}

}  // namespace talon
