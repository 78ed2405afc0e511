#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/types.h"

namespace talon {

/// Options whose bad values throw UsageError naming the flag, what it may be and what it was.
/// `names` as CLI11 takes them ("-n,--max-new"); the last is the one in messages. The value held
/// before parsing is the default.
CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, int least, int most,
                     const std::string& help);
CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, double least,
                      double most, const std::string& help);

/// A whole number of 64 bits.
CLI::Option* add_count(CLI::App& app, const std::string& names, std::uint64_t& value,
                       const std::string& help);

template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

/// One of a few words. Holds its own copy of `choices`.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value, Choices<T> choices,
                        const std::string& help);

/// A check of CLI11: what is wrong with a text; empty if nothing is.
std::string no_empty_text(const std::string& text);

/// Throws UsageError naming a word that is there twice.
[[noreturn]] void fail_twice(const std::string& flag, const std::string& word);
void require_each_once(const std::string& flag, const std::vector<std::string>& words);
/// The word of `choices` that stands for `value`. REQUIRES: one does.
template <typename T>
const std::string& word_of(const Choices<T>& choices, T value) {
  return std::ranges::find(choices, value, &std::pair<std::string, T>::second)->first;
}
/// "expected A, B or C" for messages.
std::string one_of(const std::vector<std::string>& words);
/// The name that messages use of `names`.
std::string flag_name(const std::string& names);
[[noreturn]] void fail_choice(const std::string& flag, const std::vector<std::string>& words,
                              const std::string& found);

/// Parses a whole number, all of it. Throws UsageError `what: expected a whole number from A to B,
/// got "x"`.
long long parse_int(std::string_view what, std::string_view text, long long least, long long most);
double parse_real(std::string_view what, std::string_view text, double least, double most);
/// The words between commas. Throws UsageError for one that is empty.
std::vector<std::string> split_list(std::string_view what, std::string_view text);
/// `1,2,3`, also with spaces, line breaks or brackets between.
std::vector<TokenId> parse_ids(std::string_view what, std::string_view text);
std::vector<int> parse_int_list(std::string_view what, std::string_view text, int least, int most);

template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value, Choices<T> choices,
                        const std::string& help) {
  std::vector<std::string> words;
  std::string initial;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    if (meaning == value) initial = word;
  }
  const auto parse = [&value, choices = std::move(choices), words,
                      flag = flag_name(names)](const std::string& text) {
    for (const auto& [word, meaning] : choices) {
      if (word == text) {
        value = meaning;
        return;
      }
    }
    fail_choice(flag, words, text);
  };
  return app.add_option_function<std::string>(names, parse, help + ": " + one_of(words))
      ->type_name("WORD")
      ->default_str(initial);
}

}  // namespace talon
