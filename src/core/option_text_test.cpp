#include "core/option_text.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon {
namespace {

std::string message_of(void (*action)()) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

TEST(OptionText, ReadsNameAndOptionsAndFallsBackToDefaults) {
  OptionText text("ngram:nodes=8,share=0.25,head=a/b");
  EXPECT_EQ(text.name(), "ngram");
  EXPECT_EQ(text.take_int("nodes", 1, 1, 64), 8);
  EXPECT_EQ(text.take_int("levels", 5, 1, 64), 5);
  EXPECT_EQ(text.take_double("share", 1, 0, 1), 0.25);
  EXPECT_EQ(text.take_text("head", ""), "a/b");
  EXPECT_NO_THROW(text.finish());
}

TEST(OptionText, RefusesNumbersThatAreNoneOrOutOfRangeNamingTheOption) {
  EXPECT_EQ(message_of([] { OptionText("x:nodes=eight").take_int("nodes", 1, 1, 64); }),
            "x: option nodes: expected a whole number from 1 to 64, found \"eight\"");
  EXPECT_EQ(message_of([] { OptionText("x:nodes=65").take_int("nodes", 1, 1, 64); }),
            "x: option nodes: expected a whole number from 1 to 64, found \"65\"");
  EXPECT_EQ(message_of([] { OptionText("x:nodes=8x").take_int("nodes", 1, 1, 64); }),
            "x: option nodes: expected a whole number from 1 to 64, found \"8x\"");
  EXPECT_EQ(message_of([] { OptionText("x:p=nan").take_double("p", 1, 0, 1); }),
            "x: option p: expected a number from 0 to 1, found \"nan\"");
}

TEST(OptionText, NamesTheOptionsThatExistWhenOneDoesNot) {
  EXPECT_EQ(message_of([] {
              OptionText text("x:nods=8");
              text.take_int("nodes", 1, 1, 64);
              text.take_int("levels", 1, 1, 64);
              text.finish();
            }),
            "x: no option \"nods\"; it has nodes, levels");
  EXPECT_EQ(message_of([] { OptionText("none:a=1").finish(); }),
            "none: takes no options, found \"a\"");
}

TEST(OptionText, RefusesMalformedText) {
  for (const char* text : {"", ":a=1", "x:", "x:a", "x:=1", "x:a=1,", "x:a=1,a=2"}) {
    EXPECT_THROW(OptionText{text}, UsageError) << text;
  }
}

}  // namespace
}  // namespace talon
