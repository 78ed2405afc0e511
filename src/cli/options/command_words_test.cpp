#include "cli/options/command_words.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace talon::command_words_test {
namespace {

using Words = std::vector<std::string>;

/// Of `talon run` with a few options, in the order in which they are typed.
Words words_of(const Words& typed) {
  CLI::App app("a program", "talon");
  CLI::App* run = app.add_subcommand("run", "a command");
  std::string text;
  bool flag = false;
  run->add_option("-p,--prompt", text);
  run->add_option("--stop", text);
  run->add_flag("--json", flag);
  std::vector<const char*> pointers = {"talon"};
  for (const std::string& word : typed) pointers.push_back(word.c_str());
  Words words = command_words(app, static_cast<int>(pointers.size()), pointers.data());
  std::ranges::reverse(words);
  return words;
}

TEST(CommandWords, OfAnEmptyValueAreTwo) {
  EXPECT_EQ(words_of({"run", "--stop=", "--json"}), Words({"run", "--stop", "", "--json"}));
  EXPECT_EQ(words_of({"run", "-p", "x", "--prompt="}), Words({"run", "-p", "x", "--prompt", ""}));
}

TEST(CommandWords, AreElseAsTheyWereTyped) {
  for (const Words& typed :
       {Words{}, Words{"run", "--stop=x", "--json"}, Words{"run", "-p", "--stop=", "--json"},
        Words{"run", "--json="}, Words{"run", "--", "--stop="}, Words{"--stop="},
        Words{"run", "--stop", "run", "--prompt=a="}, Words{"run", "--unknown="}}) {
    EXPECT_EQ(words_of(typed), typed);
  }
}

}  // namespace
}  // namespace talon::command_words_test
