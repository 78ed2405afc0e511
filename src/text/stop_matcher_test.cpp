#include <gtest/gtest.h>

#include <random>

#include "text/detokenizer.h"

namespace talon::stop_matcher_test {
namespace {

struct Result {
  std::string text;
  bool stopped = false;
  bool operator==(const Result&) const = default;
};

void PrintTo(const Result& result, std::ostream* out) {
  *out << '"' << result.text << '"' << (result.stopped ? " stopped" : "");
}

Result run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Result result;
  for (const std::string& piece : pieces) {
    const auto output = matcher.push(piece);
    result.text += output.text;
    result.stopped = output.stopped;
    if (output.stopped) {
      EXPECT_EQ(matcher.push("more").text, "");
    }
  }
  if (!result.stopped) result.text += matcher.finish();
  return result;
}

/// What the text gives when it is looked at byte by byte: the first stop text to be complete ends
/// it.
Result expected(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string seen = text.substr(0, end);
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && seen.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {seen.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, FindsAStopTextAcrossEverySplit) {
  const std::string text = "Hello\n\nUser: ab\n\nUser:";
  const std::vector<std::string> stops = {"\n\nUser:"};
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (std::size_t j = i; j <= text.size(); ++j) {
      EXPECT_EQ(run(stops, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}),
                (Result{"Hello", true}));
    }
  }
}

TEST(StopMatcher, RandomTextsAndSplitsGiveWhatByteByByteGives) {
  std::mt19937 random(5);
  const auto draw = [&](std::size_t most) {
    std::string text(random() % (most + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::vector<std::string> stops = {draw(5), draw(4), draw(6)};
    const std::string text = draw(16);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 4;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    ASSERT_EQ(run(stops, pieces), expected(stops, text)) << text;
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStopText) {
  StopMatcher matcher({"<end>"});
  EXPECT_EQ(matcher.push("a < b").text, "a < b");
  EXPECT_EQ(matcher.push(" <en").text, " ");
  EXPECT_EQ(matcher.push("try <").text, "<entry ");
  EXPECT_EQ(matcher.finish(), "<");
}

TEST(StopMatcher, WithoutStopTextsPassesEverythingOn) {
  StopMatcher matcher({"", ""});
  EXPECT_TRUE(matcher.empty());
  EXPECT_EQ(matcher.push("text").text, "text");
  EXPECT_EQ(matcher.finish(), "");
}

}  // namespace
}  // namespace talon::stop_matcher_test
