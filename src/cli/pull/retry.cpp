#include "cli/pull/retry.h"

#include <chrono>
#include <iterator>
#include <thread>

#include "cli/terminal/console.h"

namespace talon {
namespace {

constexpr int kWaitSeconds[] = {1, 2, 4, 8};
constexpr int kMostWaitSeconds = 300;

/// Waits. False: `stop` is requested.
bool wait_until_retry(int seconds, const StopFlag* stop) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenLooks(20);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  const auto is_stopped = [&] { return stop && stop->requested(); };
  while (!is_stopped() && Clock::now() < end) std::this_thread::sleep_for(kBetweenLooks);
  return !is_stopped();
}

}  // namespace

void fail_transfer(const std::string& message, const TransferOutcome& outcome,
                   const RefusalWords& words, std::uint64_t kept_bytes) {
  constexpr int kRequestTimeout = 408, kTooManyAtOnce = 429, kServerFailed = 500;
  using Connection = TransferOutcome::Connection;
  const bool is_busy = outcome.status == kRequestTimeout || outcome.status == kTooManyAtOnce ||
                       outcome.status >= kServerFailed;
  if (!is_busy && outcome.connection == Connection::held) throw Error(message);
  throw TransientError(message, {.seconds = words.seconds(outcome.status),
                                 .kept_bytes = kept_bytes,
                                 .is_reached = outcome.connection != Connection::none});
}

std::optional<int> Retries::next(const Setback& setback) {
  was_reached_ = was_reached_ || setback.is_reached;
  if (setback.kept_bytes > kept_bytes_) {
    kept_bytes_ = setback.kept_bytes;
    failed_ = 0;
  }
  if (!was_reached_ || failed_ == std::size(kWaitSeconds)) return {};
  const int seconds = setback.seconds.value_or(kWaitSeconds[failed_]);
  if (seconds > kMostWaitSeconds) return {};
  ++failed_;
  return seconds;
}

void retry(const std::function<void()>& attempt, const StopFlag* stop) {
  Retries retries;
  for (;;) {
    try {
      attempt();
      return;
    } catch (const TransientError& error) {
      const std::optional<int> seconds = retries.next(error.setback());
      if (!seconds) throw;
      note("{}; trying again in {} s", error.what(), *seconds);
      if (!wait_until_retry(*seconds, stop)) throw;
    }
  }
}

}  // namespace talon
