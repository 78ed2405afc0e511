#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "core/types.h"
#include "sample/logit_changes.h"
#include "sample/race.h"
#include "sample/token_constraint.h"

namespace talon {

/// How a token is drawn from a row of logits. Applied in this order: what the constraint of the
/// answer forbids (Sampler::constrain), banned tokens, logit bias, penalties (repetition, presence,
/// frequency), temperature, then the cuts top-k, top-p, min-p, typical-p, each on what the one
/// before left, made to sum to 1.
struct SamplerOptions {
  double temperature = 0;  // 0: the largest logit (the smallest id of equals)
  int top_k = 0;           // 0: off
  double top_p = 1;        // 1: off
  double min_p = 0;        // 0: off; keeps p >= min_p * largest p
  double typical_p = 1;    // 1: off; locally typical sampling, arXiv:2202.00666
  /// CTRL, arXiv:1909.05858: divides positive, multiplies negative logits of seen tokens.
  double repetition_penalty = 1;
  double presence_penalty = 0;   // subtracted once for a token seen in the answer
  double frequency_penalty = 0;  // subtracted for each time it was seen in the answer
  /// Last tokens (prompt included) that count as seen for repetition; 0: all.
  int penalty_window = 0;
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  std::vector<TokenId> banned = {};
  /// The same while the answer has fewer tokens than `least_answer`.
  std::vector<TokenId> banned_early = {};
  int least_answer = 0;
};
/// Throws UsageError naming the field, what it may be and what it is.
void check(const SamplerOptions& options, int vocabulary);

/// Tokens before the row being sampled: what penalties look at. `path` are draft tokens from the
/// root's child on.
struct SampleHistory {
  std::span<const TokenId> committed;  // prompt and answer, root included
  std::span<const TokenId> path;
  int prompt_length = 0;

  AnswerTokens answer() const {
    return {committed.subspan(static_cast<std::size_t>(prompt_length)), path};
  }
};

/// Draws the target's own next token from a row of logits. A pure function of (options, row,
/// history, random, position): float logits, double arithmetic, and a race between the tokens that
/// can be drawn with the noise of the position (race.h). Holds scratch memory: one per sequence.
class Sampler {
 public:
  /// REQUIRES: check(options, vocabulary) passes.
  Sampler(SamplerOptions options, int vocabulary);
  const SamplerOptions& options() const { return options_; }
  /// Its bans and bias.
  const LogitChanges& changes() const { return changes_; }
  /// What its penalties do after the text of `history`, whose path is left out. Valid until the
  /// next call.
  const TextPenalties& penalties_of(const SampleHistory& history);
  /// From now on tokens are drawn among those that `constraint` allows after the history. Borrowed.
  void constrain(TokenConstraint& constraint) { constraint_ = &constraint; }
  /// Another that draws at temperature 1 without cuts, with the same constraint, bans, bias and
  /// penalties: what is the largest at temperature 0 is the likeliest there.
  Sampler uncut() const;
  /// Whether the constraint, if there is one, allows the token.
  bool allows(const SampleHistory& history, TokenId token) const;
  /// Whether sampling is the plain largest logit of the allowed, with nothing else that looks at
  /// history or changes logits.
  bool plain_argmax() const;
  /// Whether sampling is the winner of the race between the allowed, with nothing else that looks
  /// at history or changes logits.
  bool plain_race() const;

  /// The token at `position` given its row. Throws Error if every token is banned or the row holds
  /// NaN or +infinity.
  TokenId sample(std::span<const float> logits, const SampleHistory& history,
                 const PositionRandom& random, std::uint64_t position);

  struct Candidate {
    TokenId token;
    double p;
  };
  /// The processed distribution: tokens that can be drawn, ascending, summing to 1. At temperature
  /// 0 one token with p = 1. Valid until the next call. Throws as sample().
  std::span<const Candidate> distribution_by_token(std::span<const float> logits,
                                                   const SampleHistory& history);

 private:
  bool takes_logits_as_they_are() const;
  bool penalizes() const;
  bool cuts_to_top_k() const;
  bool cuts() const;
  bool cuts_to_many_largest() const;
  std::span<const float> adjust(std::span<const float> logits, const SampleHistory& history);
  void forbid(std::span<const std::uint32_t> allowed);
  void penalize(const SampleHistory& history);
  template <typename Visit>
  void for_each_seen(const SampleHistory& history, std::size_t begin, Visit&& visit);
  template <typename Repeated, typename Answered>
  void for_each_penalized(const SampleHistory& history, Repeated&& repeated, Answered&& answered);
  void collect(std::span<const float> logits, float largest);
  void collect_largest(std::span<const float> logits, float largest);
  void weigh(std::span<const float> logits, float largest);
  double least_weight() const;
  void collect_above(double least);
  TokenId draw(std::span<const float> row, float largest, const RaceNoise& noise);
  void cut();
  void keep_typical(double mass);
  void normalize();

  struct OddCandidate : Candidate {
    double oddity;  // how far its surprise is from the mean surprise
  };

  SamplerOptions options_;
  int vocabulary_;
  LogitChanges changes_;
  TextPenalties penalties_;  // of penalties_of()
  TokenConstraint* constraint_ = nullptr;
  std::vector<Candidate> candidates_;  // after collect(): p is in units of the largest
  std::vector<double> weights_;        // per token, in units of the largest
  double weight_ = 0;                  // of all
  std::vector<OddCandidate> odd_;      // scratch of keep_typical()
  std::vector<float> chosen_;          // logits of the top k
  std::vector<float> adjusted_;
  std::vector<TokenId> tokens_;  // of candidates_
  std::vector<float> masked_;    // logits of the candidates, the others banned
  std::vector<int> seen_;        // per token, how often; all zero between calls
};

}  // namespace talon
