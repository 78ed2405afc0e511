#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sample/token_constraint.h"

namespace talon {

/// A constraint whose questions about drafts take a bounded amount of work in each round: what
/// plain decoding would ask of four tokens that cost the most. Beyond it, questions about a path
/// throw Error, as a place does that the constraint itself cannot tell about, unless they are about
/// the last place that was told or one that is promised; those about the text alone are always
/// answered, so plain decoding knows no such bound.
class RoundConstraint final : public TokenConstraint {
 public:
  static constexpr std::uint64_t kMostWork = 1'000'000;

  explicit RoundConstraint(std::unique_ptr<TokenConstraint> constraint)
      : constraint_(std::move(constraint)) {
    begin_round();
  }

  void begin_round() {
    end_ = constraint_->work() + kMostWork;
    promised_.clear();
    told_.clear();
  }
  /// What may follow `path` will be told in this round whatever that takes. For places with drawn
  /// children: what is left of the work depends on which tokens these are, so a check that ended
  /// there for want of it would bias the text.
  void promise(std::span<const TokenId> path) { promised_.emplace_back(path.begin(), path.end()); }
  /// Whether this round's work is done.
  bool is_spent() const { return constraint_->work() >= end_; }

  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    return told(answer, [&] { return constraint_->allowed(answer); });
  }
  bool allows(const AnswerTokens& answer, TokenId token) override {
    return told(answer, [&] { return constraint_->allows(answer, token); });
  }
  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    return told(answer, [&] { return constraint_->forced(answer); });
  }
  /// Asked once of each token of the text, as plain decoding does: never too much.
  bool is_complete(const AnswerTokens& answer) override { return constraint_->is_complete(answer); }
  std::uint64_t work() const override { return constraint_->work(); }

 private:
  template <typename Question>
  std::invoke_result_t<Question&> told(const AnswerTokens& answer, Question&& question) {
    if (!answer.path.empty() && is_spent() && !is_owed(answer.path))
      fail("constraint: the drafts of a round ask too much");
    std::invoke_result_t<Question&> reply = question();
    told_.assign(answer.path.begin(), answer.path.end());
    return reply;
  }
  bool is_owed(std::span<const TokenId> path) const {
    const auto is_path = [&](const std::vector<TokenId>& place) {
      return std::ranges::equal(place, path);
    };
    return is_path(told_) || std::ranges::any_of(promised_, is_path);
  }

  std::unique_ptr<TokenConstraint> constraint_;
  std::uint64_t end_ = 0;
  std::vector<std::vector<TokenId>> promised_;
  std::vector<TokenId> told_;  // the last place that was
};

}  // namespace talon
