#include "text/grammar/recent_grammars.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "core/error.h"

namespace talon::recent_grammars_test {
namespace {

using Kind = GrammarText::Kind;

class RecentGrammarsOf : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  RecentGrammars grammars_{tokenizer_, tokenizer_.vocabulary_size()};
};

TEST_F(RecentGrammarsOf, ATextThatIsAskedForAgainIsTheSameGrammar) {
  const auto once = grammars_.get({Kind::regex, "[ab]+"});
  EXPECT_EQ(grammars_.get({Kind::regex, "[ab]+"}), once);
  EXPECT_NE(grammars_.get({Kind::regex, "[abc]+"}), once);
}

TEST_F(RecentGrammarsOf, TheSameTextOfAnotherKindIsAnother) {
  const std::string text = R"(["a"])";  // a class of characters, or a list of one text
  EXPECT_NE(grammars_.get({Kind::regex, text}), grammars_.get({Kind::choice, text}));
}

TEST_F(RecentGrammarsOf, ThoseThatWereAskedForLastAreRemembered) {
  std::vector<std::shared_ptr<const ConstraintSource>> first;  // so that no two have one address
  const auto text = [](std::size_t i) { return GrammarText{Kind::regex, std::string(i + 1, 'a')}; };
  for (std::size_t i = 0; i < RecentGrammars::kMost; ++i) first.push_back(grammars_.get(text(i)));
  EXPECT_EQ(grammars_.get(text(0)), first[0]);
  grammars_.get(text(RecentGrammars::kMost));
  EXPECT_EQ(grammars_.get(text(0)), first[0]);
  EXPECT_NE(grammars_.get(text(1)), first[1]);
}

TEST_F(RecentGrammarsOf, WhatIsWrongIsSoEachTime) {
  for (int i = 0; i < 2; ++i) EXPECT_THROW(grammars_.get({Kind::regex, "(a"}), Error);
}

TEST_F(RecentGrammarsOf, ThreadsThatAskAtOnceGetWhatTheyAskedFor) {
  const auto begins = [&](const std::string& text) {
    const auto grammar = grammars_.get({Kind::regex, text});
    const auto state = grammar->start({});
    const auto mask = state->allowed({});
    int count = 0;
    for (TokenId token = 0; token < tokenizer_.vocabulary_size(); ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) == 0) continue;
      if (!text.starts_with(tokenizer_.bytes_of(token))) return false;
      ++count;
    }
    return count > 0;
  };
  std::vector<std::future<bool>> asked;
  for (int i = 0; i < 8; ++i) {
    asked.push_back(
        std::async(std::launch::async, [&, i] { return begins(i % 2 == 0 ? "aaaa" : "bbbb"); }));
  }
  for (auto& one : asked) EXPECT_TRUE(one.get());
}

}  // namespace
}  // namespace talon::recent_grammars_test
