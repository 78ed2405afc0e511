#include "io/formats/gguf_names.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>

namespace talon {
namespace {

constexpr std::string_view kEnding = ".gguf", kMiddle = "-of-";
constexpr std::size_t kDigits = 5;
constexpr std::size_t kTail = 1 + kDigits + kMiddle.size() + kDigits;  // -00001-of-00003

bool is_number(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

/// The number of a part; empty: the file is whole.
std::string_view part_of(std::string_view name) {
  if (!name.ends_with(kEnding) || name.size() <= kTail + kEnding.size()) return {};
  const std::string_view tail = name.substr(name.size() - kTail - kEnding.size(), kTail);
  const std::string_view number = tail.substr(1, kDigits);
  const bool fits = tail[0] == '-' && is_number(number) &&
                    is_number(tail.substr(kTail - kDigits)) &&
                    tail.substr(1 + kDigits, kMiddle.size()) == kMiddle;
  return fits ? number : std::string_view();
}

std::string lower_of(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
  const std::string lower = lower_of(name);
  return std::ranges::any_of(
      words, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

/// An importance matrix, by which a model was quantised: imatrix_unsloth.gguf, NAME-imatrix.gguf.
bool is_named_as_matrix(std::string_view path) {
  const std::string name = lower_of(path.substr(path.rfind('/') + 1));
  return name.starts_with("imatrix") || name.ends_with("imatrix.gguf");
}

/// A prediction layer alone, as llama.cpp's converter names it. A model that keeps its layer may
/// say so, too, but elsewhere in its name: NAME-MTP-Q8_0.gguf.
bool is_named_as_layer(std::string_view path) {
  return lower_of(path.substr(path.rfind('/') + 1)).starts_with("mtp-");
}

template <typename Wanted>
std::vector<std::string> sorted_of(const std::vector<std::string>& files, const Wanted& wanted) {
  std::vector<std::string> chosen;
  std::ranges::copy_if(files, std::back_inserter(chosen), wanted);
  std::ranges::sort(chosen);
  return chosen;
}

/// Whether the name of a model ends with these words, as NAME-Q4_K_M.gguf does with q4_k_m.
bool ends_with_words(std::string_view file, std::string_view words) {
  std::string name = lower_of(stem_of_gguf(file));
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  if (words.empty() || name.size() <= words.size() || !name.ends_with(lower_of(words)))
    return false;
  return std::string_view("-._").find(name[name.size() - words.size() - 1]) !=
         std::string_view::npos;
}

}  // namespace

std::string stem_of_gguf(std::string_view name) {
  if (part_of(name).empty()) return std::string(name);
  return std::string(name.substr(0, name.size() - kTail - kEnding.size()));
}

bool is_further_part(std::string_view name) {
  const std::string_view part = part_of(name);
  return !part.empty() && part != "00001";
}

bool is_head_file(std::string_view name) {
  return name.ends_with(kEnding) &&
         (has_word(name, {"eagle", "dflash", "dspark", "medusa"}) || is_named_as_layer(name));
}

bool is_model_file(std::string_view name) {
  return name.ends_with(kEnding) && !is_further_part(name) && !is_head_file(name) &&
         !has_word(name, {"mmproj"});
}

std::vector<std::string> models_among(const std::vector<std::string>& files) {
  std::vector<std::string> models = sorted_of(files, is_model_file);
  std::vector<std::string> but_matrices = sorted_of(models, std::not_fn(is_named_as_matrix));
  if (!but_matrices.empty()) return but_matrices;
  if (!models.empty()) return models;
  return sorted_of(
      files, [](const std::string& file) { return is_head_file(file) && !is_further_part(file); });
}

std::vector<std::string> parts_among(const std::vector<std::string>& files, std::string_view name) {
  const auto parts_of = [&](std::string_view file) {
    const std::string stem = stem_of_gguf(file);
    return sorted_of(files, [&](const std::string& other) { return stem_of_gguf(other) == stem; });
  };
  std::vector<std::string> parts = parts_of(name);
  if (!parts.empty()) return parts;
  const auto meant =
      sorted_of(models_among(files), [&](const auto& file) { return ends_with_words(file, name); });
  return meant.size() == 1 ? parts_of(meant.front()) : parts;
}

}  // namespace talon
