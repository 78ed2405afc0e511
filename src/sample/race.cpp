#include "sample/race.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace talon {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr float kMostScale = 1e30F;  // a float; more would make 0 * infinity

double log_time(TokenId token, const RaceRow& row, const RaceNoise& noise) {
  const auto logit = static_cast<double>(row.logits[static_cast<std::size_t>(token)]);
  return noise.log_exponential(token) -
         (logit - static_cast<double>(row.largest)) / row.temperature;
}

void take_if_earlier(const RaceWinner& other, RaceWinner& best) {
  const bool earlier = other.log_time < best.log_time ||
                       (other.log_time == best.log_time && other.token < best.token);
  if (earlier || best.token < 0) best = other;
}

}  // namespace

double exact_log(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kLn2High = 6.93147180369123816490e-1;  // with zeros at the end: times an
                                                          // exponent it is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
  double m = std::bit_cast<double>((bits & kMantissa) | std::uint64_t{1022} << 52);  // [1/2, 1)
  if (m < kSqrtHalf) {
    m = m * 2;
    --exponent;
  }
  // ln m = 2 artanh s
  const double s = (m - 1) / (m + 1), square = s * s;
  double p = 1.0 / 21;
  p = p * square + 1.0 / 19;
  p = p * square + 1.0 / 17;
  p = p * square + 1.0 / 15;
  p = p * square + 1.0 / 13;
  p = p * square + 1.0 / 11;
  p = p * square + 1.0 / 9;
  p = p * square + 1.0 / 7;
  p = p * square + 1.0 / 5;
  p = p * square + 1.0 / 3;
  const double tail = 2 * s * square * p;
  return exponent * kLn2High + (2 * s + (tail + exponent * kLn2Low));
}

double log_exponential(std::uint32_t high, std::uint32_t low) {
  constexpr double kSmall = 0x1p-20;
  const std::uint64_t upper = (std::uint64_t{high} << 20) | (low >> 12);
  const double v = (static_cast<double>(upper) + 0.5) * 0x1p-52;
  const double exponential = v < kSmall ? v + v * v * (0.5 + v * (1.0 / 3)) : -exact_log(1 - v);
  return exact_log(exponential);
}

double RaceNoise::log_exponential(TokenId token) const {
  const auto id = static_cast<std::uint32_t>(token);
  const std::uint32_t block = block_of_word(id), word = word_in_block(id);
  return talon::log_exponential(high_.block(block)[word], low_.block(block)[word]);
}

RaceWinner race(const RaceRow& row, TokenId favourite, const RaceNoise& noise,
                const RaceKernels& kernels) {
  RaceTrack track;
  track.high = noise.high_words();
  track.logits = row.logits.data();
  track.count = static_cast<int>(row.logits.size());
  track.largest = row.largest;
  track.scale =
      static_cast<float>(std::fmin(kLog2E / row.temperature, static_cast<double>(kMostScale)));
  RaceWinner best{favourite, log_time(favourite, row, noise)};
  const auto bound = [&] { return static_cast<float>(best.log_time * kLog2E); };
  for (TokenId token = kernels.next_survivor(track, bound(), 0); token < track.count;
       token = kernels.next_survivor(track, bound(), token + 1)) {
    if (token != favourite) take_if_earlier({token, log_time(token, row, noise)}, best);
  }
  return best;
}

RaceWinner race_among(std::span<const TokenId> tokens, const RaceRow& row, const RaceNoise& noise) {
  RaceWinner best;
  for (const TokenId token : tokens) take_if_earlier({token, log_time(token, row, noise)}, best);
  expects(best.token >= 0, "a token that may be drawn");
  return best;
}

}  // namespace talon
