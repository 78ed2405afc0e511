#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/types.h"

namespace talon {

/// The tokens of an answer up to some place: those that are text, and a draft's after them.
struct AnswerTokens {
  std::span<const TokenId> committed;
  std::span<const TokenId> path;

  std::size_t size() const { return committed.size() + path.size(); }
  TokenId operator[](std::size_t i) const {
    return i < committed.size() ? committed[i] : path[i - committed.size()];
  }
};

/// Which tokens may come next in one answer: a function of its tokens alone, whatever was asked
/// before. Remembers where it was asked last, so that neighbouring places are cheap. One caller at
/// a time. All throw Error for tokens that it does not allow, and for questions that take too much
/// time or memory.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Bit t % 32 of word t / 32 says whether token t may come next. Valid until the next call.
  virtual std::span<const std::uint32_t> allowed(const AnswerTokens& answer) = 0;
  /// The same for one token.
  virtual bool allows(const AnswerTokens& answer, TokenId token) = 0;
  /// Tokens that come next, one after the other, since no other is allowed; as far as is known.
  virtual std::vector<TokenId> forced(const AnswerTokens& answer) = 0;
  /// Whether nothing but an end token may come next.
  virtual bool is_complete(const AnswerTokens& answer) = 0;
  /// What all questions so far have taken, in steps that are counted, about 15 a microsecond. No
  /// clock is read: the same questions take the same. 0 where each takes next to nothing.
  virtual std::uint64_t work() const { return 0; }
};

/// What answers must look like. Immutable; may be used from several threads.
class ConstraintSource {
 public:
  virtual ~ConstraintSource() = default;
  /// For one answer. end_tokens: allowed where the answer may end.
  virtual std::unique_ptr<TokenConstraint> start(std::span<const TokenId> end_tokens) const = 0;
};

}  // namespace talon
