#pragma once

#include <utility>
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

/// What a request's penalties do to the logits of the tokens that its text has. Drafters are told;
/// what the target's sampler sees beside it are a draft's own tokens above a place. Immutable.
class TextPenalties {
 public:
  struct Seen {
    TokenId token = 0;
    double subtracted = 0;  // for its presence and frequency
    bool repeats = false;   // so the penalty of repetition divides or multiplies its logit
    bool operator==(const Seen&) const = default;
  };

  TextPenalties() = default;
  /// repetition: SamplerOptions::repetition_penalty. seen: each token once.
  TextPenalties(double repetition, std::vector<Seen> seen)
      : repetition_(repetition), seen_(std::move(seen)) {}

  const std::vector<Seen>& all() const { return seen_; }
  bool empty() const { return seen_.empty(); }
  /// What they make of the logit of a token that was seen. scale: of the logit, whose unit may be
  /// another (1 / beta of a Coupling).
  float penalized(float logit, const Seen& seen, double scale = 1) const;

 private:
  double repetition_ = 1;
  std::vector<Seen> seen_;
};

}  // namespace talon
