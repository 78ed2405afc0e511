#include "cli/options/command_words.h"

#include <algorithm>

namespace talon {
namespace {

/// The command of `app` that a word names; null: none.
const CLI::App* named_by(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!word.empty() && command->get_name() == word) return command;
  }
  return nullptr;
}

/// Whether a word is an option that a value follows.
bool wants_value(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) return false;
  const CLI::Option* option = command.get_option_no_throw(word);
  return option && option->get_items_expected_min() > 0;
}

}  // namespace

std::vector<std::string> command_words(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = &app;
  std::vector<std::string> words;
  bool is_value = false, is_over = false;  // what the word is, and whether options are
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_option = !is_value && !is_over;
    if (const CLI::App* named = is_option ? named_by(*command, word) : nullptr) command = named;
    is_over |= is_option && word == "--";
    const std::string name = word.substr(0, word.size() - (word.ends_with('=') ? 1 : 0));
    const bool is_empty = is_option && name.size() < word.size() && name.starts_with("--") &&
                          wants_value(*command, name);
    is_value = is_option && !is_empty && wants_value(*command, word);
    words.push_back(is_empty ? name : word);
    if (is_empty) words.emplace_back();
  }
  std::ranges::reverse(words);
  return words;
}

}  // namespace talon
