#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/pull/refusal_words.h"
#include "core/error.h"
#include "core/stop.h"
#include "net/http_transfer.h"

namespace talon {

/// What is known of a failure that another try may not meet.
struct Setback {
  std::optional<int> seconds = {};  // until the server wants to be asked again; none: not said
  std::uint64_t kept_bytes = 0;     // from which the next try goes on
  bool is_reached = true;           // a connection was made
};

/// A failure that another try may not meet: a connection that broke, a server that is busy.
class TransientError : public Error {
 public:
  TransientError(const std::string& message, const Setback& setback)
      : Error(message), setback_(setback) {}
  const Setback& setback() const { return setback_; }

 private:
  Setback setback_;
};

/// Throws `message` about a transfer that failed: TransientError after a status of 408, 429 or from
/// 500 on and where no connection was made or held, else Error. `words`: of its answer.
[[noreturn]] void fail_transfer(const std::string& message, const TransferOutcome& outcome,
                                const RefusalWords& words, std::uint64_t kept_bytes = 0);

/// When one thing is tried again: four times in a row, after 1, 2, 4 and 8 seconds or as the server
/// wants it, and as often once more bytes are kept than ever before. Not where the server asks for
/// more than five minutes, nor where no connection was ever made.
class Retries {
 public:
  /// Seconds from the next failure to the next try; none: it is given up.
  std::optional<int> next(const Setback& setback);

 private:
  std::size_t failed_ = 0;  // times since more bytes came
  std::uint64_t kept_bytes_ = 0;
  bool was_reached_ = false;
};

/// Calls `attempt` until it returns, with a note and a wait after each TransientError, as Retries
/// has it. Throws what `attempt` threw last when it is given up, is no such error, or once `stop`
/// (null: nobody's) is requested, which ends a wait at once.
void retry(const std::function<void()>& attempt, const StopFlag* stop);

}  // namespace talon
