#pragma once

#include <string>
#include <string_view>

namespace talon {

/// Whose work threw.
enum class FaultOrigin {
  sequence,  // one sequence's own: its text, rule, sampler or rows of the cache
  policy,    // or the estimates that policies share
  drafter,   // or what its calls need
  observer,  // or timekeeper
  backend,   // what all sequences share: the forward, and a step's own need of memory
};

/// What went wrong since the engine was made, and cost no token.
struct EngineStatistics {
  /// Exceptions, by whose work threw.
  struct Throws {
    long sequence = 0, policy = 0, drafter = 0, observer = 0, backend = 0;
  } throws;
  long failed = 0;   // sequences that ended as FinishReason::failed
  long dropped = 0;  // sequences that went on by plain decoding after their drafter or policy threw
  long lost_draft_rows = 0;  // Drafter::lost_rows() of all methods: heads lack room
};

/// Assigns without throwing: where memory is short, `text` becomes "out of memory".
void assign_or_say_why_not(std::string& text, std::string_view value) noexcept;

/// Keeps what one component throws away from the sequences that have no part in it, and counts it.
class Faults {
 public:
  /// Runs `work`, and says whether it came to its end. Otherwise reason() tells what it threw.
  template <typename Work>
  bool contain(FaultOrigin origin, Work&& work) {
    try {
      work();
      return true;
    } catch (...) {
      note(origin);
      return false;
    }
  }
  std::string_view reason() const { return reason_; }

  /// Counts a sequence that goes on by plain decoding, for what was thrown last.
  void note_drop() noexcept {
    ++statistics.dropped;
    assign_or_say_why_not(drop_reason_, reason_);
  }
  /// Why the last one did; empty: none has.
  std::string_view drop_reason() const { return drop_reason_; }

  EngineStatistics statistics;

 private:
  /// Of the exception that is being handled.
  void note(FaultOrigin origin) noexcept;

  std::string reason_, drop_reason_;
};

}  // namespace talon
