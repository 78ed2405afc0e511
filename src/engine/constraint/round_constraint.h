#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/error.h"
#include "sample/token_constraint.h"

namespace talon {

/// A constraint whose questions about drafts take a bounded amount of work in each round: what
/// plain decoding would ask of four tokens that cost the most. Beyond it, questions about a path
/// throw Error, as a place does that the constraint itself cannot tell about; those about the text
/// alone are always answered, so plain decoding knows no such bound.
class RoundConstraint final : public TokenConstraint {
 public:
  static constexpr std::uint64_t kMostWork = 1'000'000;

  explicit RoundConstraint(std::unique_ptr<TokenConstraint> constraint)
      : constraint_(std::move(constraint)) {
    begin_round();
  }

  void begin_round() { end_ = constraint_->work() + kMostWork; }
  /// Whether this round's work is done.
  bool is_spent() const { return constraint_->work() >= end_; }

  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    check(answer);
    return constraint_->allowed(answer);
  }
  bool allows(const AnswerTokens& answer, TokenId token) override {
    check(answer);
    return constraint_->allows(answer, token);
  }
  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    check(answer);
    return constraint_->forced(answer);
  }
  /// Asked once of each token of the text, as plain decoding does: never too much.
  bool is_complete(const AnswerTokens& answer) override { return constraint_->is_complete(answer); }
  std::uint64_t work() const override { return constraint_->work(); }

 private:
  void check(const AnswerTokens& answer) const {
    if (!answer.path.empty() && is_spent()) fail("constraint: the drafts of a round ask too much");
  }

  std::unique_ptr<TokenConstraint> constraint_;
  std::uint64_t end_ = 0;
};

}  // namespace talon
