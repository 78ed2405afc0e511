#include "io/json_text.h"

#include <gtest/gtest.h>

#include <ctime>

#include "core/error.h"

namespace talon::json_text_test {
namespace {

double seconds_of(const std::string& text) {
  const std::clock_t begin = std::clock();
  parse_json(text, "read");
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Steps for all of a list whenever one value of it ends would take minutes.
TEST(ParseJson, TakesNoLongerForAValueThatHasManyBesideIt) {
  constexpr int kListed = 300000, kKeys = 50000;
  constexpr double kMostSeconds = 20;
  std::string list = "[", object = "{";
  for (int i = 0; i < kListed; ++i) list += "{},";
  for (int i = 0; i < kKeys; ++i) object += fmt::format("\"{}\":{{}},", i);
  EXPECT_LT(seconds_of(list + "0]"), kMostSeconds);
  EXPECT_LT(seconds_of(object + "\"\":0}"), kMostSeconds);
}

TEST(ParseJson, GivesTheValuesOfAText) {
  for (const char* text :
       {R"({"a":[1,-2,0.5,"x",null,true,{"a":{}}],"b":[],"c":{"":[[],[{}]],"a":0}})",
        "[18446744073709551615]", R"([[[1],2],{"a":[3],"b":4},5])", "[]", "{}", "7", "-0.0",
        "\"a\\u00e9\"", "false", "null"}) {
    const Json json = parse_json(text, "");
    EXPECT_EQ(json, Json::parse(text)) << text;
    EXPECT_EQ(json.dump(), Json::parse(text).dump()) << text;
  }
}

TEST(ParseJson, RefusesWhatItsReadersDoNotExpect) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      return "found " + parse_json(text, "read").dump();
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto nested = [](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  EXPECT_EQ(refusal(R"([{"a":{"b":1,"c":2,"b":3}}])"), "read: key \"b\": found twice");
  EXPECT_EQ(refusal(R"([{"b":1},{"b":2},{"a":{"b":3},"b":4}])").substr(0, 6), "found ");
  EXPECT_EQ(refusal(nested(64)), "found " + nested(64));
  EXPECT_EQ(refusal(nested(65)), "read: expected at most 64 values within each other, found more");
  std::string many = "[0";
  for (std::size_t i = 0; i < kMostJsonValues; ++i) many += ",0";
  EXPECT_EQ(refusal(many + "]"), "read: expected at most 4000000 values, found more");
  for (const char* text : {"", "[1", "[1,]", "{\"a\"}", "1 2", "[1e999]", "nul", "\"\xff\""})
    EXPECT_EQ(refusal(text).substr(0, 26), "read: expected JSON text: ") << text;
}

}  // namespace
}  // namespace talon::json_text_test
