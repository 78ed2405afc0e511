#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// The words that prompts of an image model are made of: words.json beside its weights, as `talon
/// train image model` writes it. A prompt is a few words, then a style; places that are left hold
/// the null word.
class PromptWords {
 public:
  /// Throws Error naming the file and what is wrong with it.
  static PromptWords read(const std::filesystem::path& file);
  PromptWords(std::vector<std::string> words, std::vector<std::string> styles);

  /// Rows of the table of prompts: words, styles, the null word.
  int rows() const { return null_word() + 1; }
  int null_word() const { return static_cast<int>(words_.size() + styles_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& styles() const { return styles_; }

  /// The rows of a prompt of `length` places: "red cat twemoji", also with commas. Throws
  /// UsageError for a word that is not known, with those that are most like it, for a text without
  /// a style at its end and for one with too many words.
  std::vector<int> rows_of(std::string_view text, int length) const;

 private:
  std::vector<std::string> words_, styles_;
};

}  // namespace talon
