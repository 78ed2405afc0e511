#include "draw/row_constraint.h"

#include "core/error.h"

namespace talon {
namespace {

/// A bit for each token of a vocabulary.
using TokenBits = std::vector<std::uint32_t>;

void allow(TokenId token, TokenBits& bits) {
  bits[static_cast<std::size_t>(token) / 32] |= 1u << (static_cast<unsigned>(token) % 32);
}

class RowConstraint final : public TokenConstraint {
 public:
  RowConstraint(const ImagePlan& plan, int vocabulary) : plan_(plan) {
    const TokenBits none((static_cast<std::size_t>(vocabulary) + 31) / 32);
    codes_ = row_end_ = none;
    for (TokenId token = 0; token < vocabulary; ++token)
      allow(token, token == plan.row_end ? row_end_ : codes_);
  }

  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    return next(answer) < 0 ? codes_ : row_end_;
  }
  bool allows(const AnswerTokens& answer, TokenId token) override {
    const TokenId forced = next(answer);
    return forced < 0 ? token != plan_.row_end : token == forced;
  }
  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    const TokenId forced = next(answer);
    return forced < 0 ? std::vector<TokenId>{} : std::vector<TokenId>{forced};
  }
  bool is_complete(const AnswerTokens&) override { return false; }

 private:
  TokenId next(const AnswerTokens& answer) const {
    return plan_.forced(static_cast<int>(answer.size()));
  }

  ImagePlan plan_;
  TokenBits codes_, row_end_;
};

class RowConstraintSource final : public ConstraintSource {
 public:
  RowConstraintSource(const ImagePlan& plan, int vocabulary)
      : plan_(plan), vocabulary_(vocabulary) {}
  std::unique_ptr<TokenConstraint> start(std::span<const TokenId>) const override {
    return std::make_unique<RowConstraint>(plan_, vocabulary_);
  }

 private:
  ImagePlan plan_;
  int vocabulary_;
};

}  // namespace

std::shared_ptr<const ConstraintSource> picture_constraint(const ModelConfig& config) {
  if (!config.image || config.image->row_end < 0) return nullptr;
  return std::make_shared<RowConstraintSource>(*config.image, config.vocabulary);
}

}  // namespace talon
