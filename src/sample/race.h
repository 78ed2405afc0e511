#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"
#include "core/types.h"
#include "sample/race_kernels.h"

namespace talon {

/// The noise of one position: an exponential number for every token, a function of (seed, choice,
/// position, token) alone. Tokens race: each needs a time of its number over its weight, and the
/// first to arrive is drawn. That is token i with probability weight i over the sum of weights
/// (docs/methods.md 5.5), whichever others were asked about before.
class RaceNoise {
 public:
  RaceNoise(const PositionRandom& random, std::uint64_t position)
      : high_(random.words(position, RandomUse::race_high)),
        low_(random.words(position, RandomUse::race_low)) {}

  /// ln E of the token, E exponential with mean 1.
  double log_exponential(TokenId token) const;
  const WordStream& high_words() const { return high_; }
  bool operator==(const RaceNoise&) const = default;

 private:
  WordStream high_, low_;
};

/// ln(-ln(1 - v)) with v = (w + 1/2) 2^-52 of the upper 52 of 64 random bits w: v is never 0 or 1.
/// By + - * / alone, in one order, so that every machine gives the same bits.
double log_exponential(std::uint32_t high, std::uint32_t low);
/// ln x in the same way. REQUIRES: x is positive, finite and not subnormal.
double exact_log(double x);

/// What races: logits, counted from `largest` (the row's) and divided by the temperature. Tokens of
/// -infinity stay at home.
struct RaceRow {
  std::span<const float> logits;
  float largest = 0;
  double temperature = 1;
};

struct RaceWinner {
  TokenId token = -1;   // none
  double log_time = 0;  // ln(E / weight), weights in units of the largest logit's
};
/// `best` becomes the earlier of both; of equals that of the smaller token.
void take_if_earlier(const RaceWinner& other, RaceWinner& best);

/// The token of the least time, of equals the smaller id. Most of a row is passed over, by a bound
/// that starts with the time of `favourite`: any token that races, best a likely one. REQUIRES: no
/// NaN, no +infinity; temperature > 0.
RaceWinner race(const RaceRow& row, TokenId favourite, const RaceNoise& noise,
                const RaceKernels& kernels = best_race_kernels());
/// The same between `favourite` and the tokens of [begin, end).
RaceWinner race_in(const RaceRow& row, TokenId favourite, const RaceNoise& noise, int begin,
                   int end, const RaceKernels& kernels = best_race_kernels());
/// The same between the `count` largest logits, of equal ones those of the smaller tokens; best
/// with many of them. REQUIRES: count >= 1; `favourite` is the first token of the largest logit.
RaceWinner race_of_largest(const RaceRow& row, int count, TokenId favourite, const RaceNoise& noise,
                           const RaceKernels& kernels = best_race_kernels());
/// The same among `tokens`, which all race: for few of them. REQUIRES: at least one.
RaceWinner race_among(std::span<const TokenId> tokens, const RaceRow& row, const RaceNoise& noise);

/// What is drawn from a row without cuts, beside the row.
struct RaceDraw {
  RaceNoise noise;
  double temperature = 1;
  bool operator==(const RaceDraw&) const = default;
};
/// The largest logit of a row. Throws Error unless it is finite and no logit is NaN.
LargestLogit largest_logit(std::span<const float> logits);
/// The winner of a whole row. Throws as largest_logit().
TokenId draw_by_race(std::span<const float> logits, const RaceDraw& draw);

/// The noise of one position as a draft adds it to logits: `scale` times a Gumbel number for each
/// token, of the words that its race will have.
struct GumbelNoise {
  WordStream words;  // RaceNoise::high_words()
  float scale = 1;
};
/// out[i] is that of tokens[begin + i], of token begin + i where `tokens` is empty. Best with
/// `tokens` ascending: the words of those between neighbours are made as well.
void fill_gumbel(const GumbelNoise& noise, std::span<const TokenId> tokens, int begin,
                 std::span<float> out, const RaceKernels& kernels = best_race_kernels());

}  // namespace talon
