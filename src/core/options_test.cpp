#include "core/options.h"

#include <gtest/gtest.h>

namespace talon::options_test {
namespace {

const std::vector<Option> kDeclared = {
    {"nodes", WholeNumber{1, 64}, "32", "most nodes"},
    {"share", RealNumber{0, 1}, "0.5", "of them"},
    {"after", WholeNumbers{1, 9}, "5/7", "levels"},
    {"side", OneOf{{"left", "right"}}, "left", "where"},
    {"head", FreeText{"PATH"}, "", "the head"},
    {"levels", WholeNumber{1, 8}, "", "as the head says"},
};

Options read(std::string_view text) { return Options(OptionText(text), kDeclared); }

template <typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}
std::string refusal_of(std::string_view text) {
  return message_of([&] { read(text); });
}

TEST(Options, AreWhatIsGivenElseWhatIsUsual) {
  Options given = read("x:nodes=8,share=0.25,after=9,side=right,head=a/b,levels=3");
  EXPECT_EQ(given.name(), "x");
  EXPECT_EQ(given.whole("nodes"), 8);
  EXPECT_EQ(given.real("share"), 0.25);
  EXPECT_EQ(given.wholes("after"), std::vector<int>{9});
  EXPECT_EQ(given.text("side"), "right");
  EXPECT_EQ(given.text("head"), "a/b");
  EXPECT_EQ(given.whole_or("levels", 2), 3);
  EXPECT_TRUE(given.is_given("nodes"));

  Options usual = read("x");
  EXPECT_EQ(usual.whole("nodes"), 32);
  EXPECT_EQ(usual.real("share"), 0.5);
  EXPECT_EQ(usual.wholes("after"), (std::vector<int>{5, 7}));
  EXPECT_EQ(usual.text("side"), "left");
  EXPECT_EQ(usual.text("head"), "");
  EXPECT_EQ(usual.whole_or("levels", 2), 2);
  EXPECT_FALSE(usual.is_given("nodes"));
}

TEST(Options, ValuesOfAnotherKindAreRefusedNamingTheOptionAndWhatItMayBe) {
  const std::string whole = "x: option nodes: expected a whole number from 1 to 64, found ";
  EXPECT_EQ(refusal_of("x:nodes=eight"), whole + "\"eight\"");
  EXPECT_EQ(refusal_of("x:nodes=65"), whole + "\"65\"");
  EXPECT_EQ(refusal_of("x:nodes=8x"), whole + "\"8x\"");
  EXPECT_EQ(refusal_of("x:nodes="), whole + "\"\"");
  EXPECT_EQ(refusal_of("x:share=nan"),
            "x: option share: expected a number from 0 to 1, found \"nan\"");
  EXPECT_EQ(refusal_of("x:after=5//7"),
            "x: option after: expected whole numbers from 1 to 9 with / between, found \"5//7\"");
  EXPECT_EQ(refusal_of("x:side=top"), "x: option side: expected one of left, right, found \"top\"");
  EXPECT_EQ(refusal_of("x:head="), "x: option head: expected PATH, found \"\"");
}

TEST(Options, OneThatIsNotDeclaredIsRefusedWithThoseThatAre) {
  EXPECT_EQ(refusal_of("x:nods=8"),
            "x: no option \"nods\"; it has nodes, share, after, side, head, levels");
  EXPECT_EQ(message_of([] { Options(OptionText("none:a=1"), {}); }),
            "none: takes no options, found \"a\"");
}

TEST(Options, ARequiredOneMustBeGiven) {
  const std::vector<Option> declared = {{"file", FreeText{"PATH"}, "", "what was trained", true}};
  EXPECT_EQ(message_of([&] { Options(OptionText("x"), declared); }),
            "x: needs file=PATH: what was trained");
  EXPECT_EQ(find_required(declared), declared.data());
  EXPECT_EQ(find_required(kDeclared), nullptr);
}

TEST(Options, WhatIsDeclaredIsReadAndWhatIsReadIsDeclared) {
  Options options = read("x");
  EXPECT_THROW(options.whole("depth"), Bug);
  EXPECT_THROW(options.finish(), Bug);
}

TEST(Options, UsualValuesAreOfTheirKind) {
  const std::vector<Option> declared = {{"nodes", WholeNumber{1, 64}, "65", "most nodes"}};
  EXPECT_THROW(Options(OptionText("x"), declared), Bug);
}

TEST(Options, HelpShowsTheUsualValueOrWhatStandsForOne) {
  EXPECT_EQ(usage_of(kDeclared[0]), "nodes=32");
  EXPECT_EQ(usage_of(kDeclared[4]), "head=PATH");
  EXPECT_EQ(usage_of(kDeclared[5]), "levels=N");
}

TEST(Options, MalformedTextIsRefused) {
  for (const char* text : {"", ":a=1", "x:", "x:a", "x:=1", "x:a=1,", "x:a=1,a=2"}) {
    EXPECT_THROW(OptionText{text}, UsageError) << text;
  }
}

}  // namespace
}  // namespace talon::options_test
