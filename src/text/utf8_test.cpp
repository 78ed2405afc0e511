#include "text/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace talon::utf8_test {
namespace {

const std::string kBad = "\uFFFD";

std::string spell(unsigned code) {
  std::string text;
  if (code < 0x80) {
    text = {static_cast<char>(code)};
  } else if (code < 0x800) {
    text = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
  } else if (code < 0x10000) {
    text = {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
            static_cast<char>(0x80 | (code & 0x3F))};
  } else {
    text = {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
            static_cast<char>(0x80 | (code >> 6 & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
  }
  return text;
}

TEST(Utf8, EveryCodePointIsWellFormedExceptSurrogatesAndWhatLiesBeyondUnicode) {
  for (unsigned code = 0; code < 0x200000; ++code) {
    const bool character = code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
    const std::string text = spell(code);
    ASSERT_EQ(is_well_formed(text), character) << std::hex << code;
    ASSERT_EQ(replace_ill_formed(text) == text, character) << std::hex << code;
  }
}

TEST(Utf8, EachMaximalIllFormedPartBecomesOneReplacement) {
  // Unicode 15, section 3.9, tables 3-8 to 3-11, and other kinds of damage.
  EXPECT_EQ(replace_ill_formed("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(replace_ill_formed("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(replace_ill_formed("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(replace_ill_formed("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(replace_ill_formed("\x80"), kBad);
  EXPECT_EQ(replace_ill_formed("a\xE2\x82"), "a" + kBad);
  EXPECT_EQ(replace_ill_formed("\xF0\x9F\x98"), kBad);
  EXPECT_EQ(replace_ill_formed(std::string("\0\xC3\0", 3)),
            std::string("\0", 1) + kBad + std::string("\0", 1));
  EXPECT_EQ(replace_ill_formed(""), "");
}

TEST(Utf8, AnUnfinishedCharacterAtTheEndIsLeftForTheNextBytes) {
  const std::string text = "x\u00e9\u20ac\U0001F600";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    std::string out;
    const std::size_t read = append_well_formed(out, std::string_view(text).substr(0, size));
    EXPECT_EQ(out, text.substr(0, read));
    EXPECT_TRUE(is_well_formed(out));
    EXPECT_LT(size - read, 4U);
    EXPECT_EQ(read == size, is_well_formed(text.substr(0, size)));
  }
}

}  // namespace
}  // namespace talon::utf8_test
