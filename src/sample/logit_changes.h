#pragma once

#include <vector>

#include "core/types.h"

namespace talon {

struct SamplerOptions;

/// What a request does to logits whatever its text says: its bans and its bias, by token. Drafters
/// are told, since what can be drawn depends on it. Immutable.
class LogitChanges {
 public:
  /// In place of -infinity, so that sums of logits stay numbers.
  static constexpr float kBan = -1e9F;

  LogitChanges() = default;
  /// The bans that hold always win over the bias of their token, those of a short answer
  /// (SamplerOptions::banned_early) while it is short.
  explicit LogitChanges(const SamplerOptions& options);

  struct Change {
    TokenId token = 0;
    float shift = 0;  // added to its logit: finite, kBan at least
    float early = 0;  // the same while the answer is short
    bool operator==(const Change&) const = default;
  };
  /// Ascending by token, each once; those that change nothing are left out.
  const std::vector<Change>& all() const { return changes_; }
  bool empty() const { return changes_.empty(); }
  /// Answers of fewer tokens are short; 0: none is.
  int least_answer() const { return least_answer_; }
  /// What is added to the token's logit.
  float shift_of(TokenId token, bool is_early) const;
  bool operator==(const LogitChanges&) const = default;

 private:
  std::vector<Change> changes_;
  int least_answer_ = 0;
};

}  // namespace talon
