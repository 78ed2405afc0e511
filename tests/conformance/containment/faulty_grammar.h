#pragma once

#include <memory>
#include <vector>

#include "faulty_allocations.h"
#include "sample/token_constraint.h"

namespace talon::test {

/// Of every three tokens of an answer the last must be a certain one, the others may be any. Ticks
/// at each question.
class FaultyGrammar : public ConstraintSource {
 public:
  FaultyGrammar(int vocabulary, Trigger& trigger) : vocabulary_(vocabulary), trigger_(trigger) {}
  std::unique_ptr<TokenConstraint> start(std::span<const TokenId>) const override {
    return std::make_unique<Constraint>(vocabulary_, trigger_);
  }

 private:
  class Constraint : public TokenConstraint {
   public:
    Constraint(int vocabulary, Trigger& trigger)
        : vocabulary_(vocabulary),
          words_((static_cast<std::size_t>(vocabulary) + 31) / 32),
          trigger_(trigger) {}
    std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
      trigger_.tick();
      for (TokenId token = 0; token < vocabulary_; ++token) {
        const std::uint32_t bit = 1U << token % 32;
        std::uint32_t& word = words_[static_cast<std::size_t>(token) / 32];
        word = may_follow(answer, token) ? word | bit : word & ~bit;
      }
      return words_;
    }
    bool allows(const AnswerTokens& answer, TokenId token) override {
      trigger_.tick();
      return may_follow(answer, token);
    }
    std::vector<TokenId> forced(const AnswerTokens& answer) override {
      trigger_.tick();
      if (!is_forced(answer)) return {};
      return {only_token(answer)};
    }
    bool is_complete(const AnswerTokens&) override {
      trigger_.tick();
      return false;
    }

   private:
    static bool is_forced(const AnswerTokens& answer) { return answer.size() % 3 == 2; }
    TokenId only_token(const AnswerTokens& answer) const {
      return (7 * static_cast<TokenId>(answer.size()) + 11) % vocabulary_;
    }
    bool may_follow(const AnswerTokens& answer, TokenId token) const {
      return !is_forced(answer) || token == only_token(answer);
    }

    int vocabulary_;
    std::vector<std::uint32_t> words_;
    Trigger& trigger_;
  };

  int vocabulary_;
  Trigger& trigger_;
};

}  // namespace talon::test
