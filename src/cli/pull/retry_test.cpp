#include "cli/pull/retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace talon::retry_test {
namespace {

std::vector<int> waits_of(Retries& retries, const Setback& setback) {
  std::vector<int> waits;
  while (const std::optional<int> seconds = retries.next(setback)) waits.push_back(*seconds);
  return waits;
}

TEST(Retries, WaitLongerEachTimeAndEnd) {
  Retries retries;
  EXPECT_EQ(waits_of(retries, {}), (std::vector<int>{1, 2, 4, 8}));
  EXPECT_EQ(retries.next({}), std::nullopt);
}

TEST(Retries, BeginAnewOnceMoreHasComeThanEverBefore) {
  Retries retries;
  EXPECT_EQ(waits_of(retries, {.kept_bytes = 100}).size(), 4u);
  EXPECT_EQ(retries.next({.kept_bytes = 50}), std::nullopt);
  EXPECT_EQ(waits_of(retries, {.kept_bytes = 101}), (std::vector<int>{1, 2, 4, 8}));
}

TEST(Retries, WaitAsTheServerSaysButNotForVeryLong) {
  Retries retries;
  EXPECT_EQ(retries.next({.seconds = 0}), 0);
  EXPECT_EQ(retries.next({.seconds = 300}), 300);
  EXPECT_EQ(retries.next({.seconds = 301}), std::nullopt);
  EXPECT_EQ(waits_of(retries, {.seconds = 0}).size(), 2u) << "they are bounded, too";
}

TEST(Retries, AreForWhatWasReachedOnce) {
  Retries retries;
  EXPECT_EQ(retries.next({.is_reached = false}), std::nullopt);
  EXPECT_EQ(retries.next({.is_reached = true}), 1);
  EXPECT_EQ(retries.next({.is_reached = false}), 2);
}

TEST(Retry, TriesAgainWhatMayPassAndNothingElse) {
  int tries = 0;
  retry(
      [&] {
        if (++tries < 3) throw TransientError("busy", {.seconds = 0});
      },
      nullptr);
  EXPECT_EQ(tries, 3);
  const auto refuse = [&] {
    ++tries;
    throw Error("no");
  };
  EXPECT_THROW(retry(refuse, nullptr), Error);
  EXPECT_EQ(tries, 4);
}

TEST(Retry, EndsOnceItIsToStop) {
  StopFlag stop;
  int tries = 0;
  const auto fail_once_more = [&] {
    ++tries;
    stop.request();
    throw TransientError("busy", {.seconds = 300});
  };
  EXPECT_THROW(retry(fail_once_more, &stop), TransientError);
  EXPECT_EQ(tries, 1);
}

bool is_transient(const TransferOutcome& outcome) {
  try {
    fail_transfer("failed", outcome, RefusalWords());
  } catch (const TransientError&) {
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(FailTransfer, KnowsWhatMayPass) {
  using Connection = TransferOutcome::Connection;
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_TRUE(is_transient({.status = status})) << status;
  }
  for (const int status : {0, 200, 400, 401, 403, 404, 416}) {
    EXPECT_FALSE(is_transient({.status = status})) << status;
  }
  EXPECT_TRUE(is_transient({.status = 200, .connection = Connection::lost}));
  EXPECT_TRUE(is_transient({.connection = Connection::none}));
}

}  // namespace
}  // namespace talon::retry_test
