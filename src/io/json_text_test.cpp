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
  const Json json = parse_json(R"({"a": [1, -2, 0.5, "x", null, true, {"a": {}}], "b": []})", "");
  EXPECT_EQ(json.dump(), R"({"a":[1,-2,0.5,"x",null,true,{"a":{}}],"b":[]})");
}

}  // namespace
}  // namespace talon::json_text_test
