#include "cli/pull/refusal_words.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>

namespace talon::refusal_words_test {
namespace {

std::string words(int status, std::initializer_list<std::string_view> lines) {
  RefusalWords words;
  for (const std::string_view line : lines) words.read(line);
  return words.text(status);
}

TEST(RefusalWords, AreTheWholeMessageOfTheLastAnswer) {
  const std::string why = std::string(150, 'x') + " ask there";
  EXPECT_EQ(words(403, {"HTTP/1.1 302 Found\r\n", "X-Error-Message: moved\r\n", "HTTP/2 403 \r\n",
                        "x-error-message: " + why + "\r\n", "\r\n"}),
            "; the server says \"" + why + "\"");
  EXPECT_EQ(words(403, {"X-Error-Message: moved\r\n", "HTTP/2 403 \r\n"}), "");
  EXPECT_EQ(words(403, {"X-Error-Message: a\x1b[2J\r\n"}), "; the server says \"a\\x1b[2J\"");
  EXPECT_LT(words(403, {"X-Error-Message: " + std::string(10000, 'x')}).size(), 500u);
}

TEST(RefusalWords, SayWhenToAskAgainWhereItHelps) {
  EXPECT_EQ(words(429, {"Retry-After: 30\r\n"}), "; ask again in 30 s");
  EXPECT_EQ(words(503, {"RateLimit: \"api\";r=0;t=55\r\n"}), "; ask again in 55 s");
  EXPECT_EQ(words(429, {"RateLimit: \"api\";r=0;t=55\r\n", "Retry-After: 30\r\n"}),
            "; ask again in 30 s");
  EXPECT_EQ(words(503, {"RateLimit: \"api\";r=9;t=55\r\n"}), "") << "there is no need to wait";
  EXPECT_EQ(words(401, {"RateLimit: \"api\";r=9;t=55\r\n"}), "");
  EXPECT_EQ(words(429, {"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n"}), "");
}

TEST(RefusalWords, KnowTheSecondsOfARefusalForNowAndTheCodeOfTheLastAnswer) {
  RefusalWords words;
  words.read("HTTP/2 404 \r\n");
  words.read("X-Error-Code: RevisionNotFound\r\n");
  EXPECT_EQ(words.code(), "RevisionNotFound");
  words.read("HTTP/2 503 \r\n");
  EXPECT_EQ(words.code(), "");
  EXPECT_EQ(words.seconds(503), std::nullopt);
  words.read("Retry-After: 0\r\n");
  EXPECT_EQ(words.seconds(503), 0);
  EXPECT_EQ(words.seconds(404), std::nullopt);
}

}  // namespace
}  // namespace talon::refusal_words_test
