#include "sample/race.h"

#include <algorithm>
#include <array>
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

/// The tokens of [begin, end), and what they are timed by.
struct RaceRange {
  const RaceRow& row;
  const RaceNoise& noise;
  const RaceKernels& kernels;
  int begin, end;
};

/// The winner between `favourite` and the tokens of the range for which takes_part(token).
template <typename TakesPart>
RaceWinner winner_in(const RaceRange& range, TokenId favourite, TakesPart&& takes_part) {
  const RaceRow& row = range.row;
  RaceTrack track;
  track.high = range.noise.high_words();
  track.logits = row.logits.data();
  track.count = range.end;
  track.largest = row.largest;
  track.scale =
      static_cast<float>(std::fmin(kLog2E / row.temperature, static_cast<double>(kMostScale)));
  RaceWinner best{favourite, log_time(favourite, row, range.noise)};
  const auto bound = [&] { return static_cast<float>(best.log_time * kLog2E); };
  const auto next = [&](TokenId from) { return range.kernels.next_survivor(track, bound(), from); };
  for (TokenId token = next(range.begin); token < track.count; token = next(token + 1)) {
    if (token == favourite || !takes_part(token)) continue;
    take_if_earlier({token, log_time(token, row, range.noise)}, best);
  }
  return best;
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

void take_if_earlier(const RaceWinner& other, RaceWinner& best) {
  const bool earlier = other.log_time < best.log_time ||
                       (other.log_time == best.log_time && other.token < best.token);
  if (earlier || best.token < 0) best = other;
}

RaceWinner race(const RaceRow& row, TokenId favourite, const RaceNoise& noise,
                const RaceKernels& kernels) {
  return race_in(row, favourite, noise, 0, static_cast<int>(row.logits.size()), kernels);
}

RaceWinner race_in(const RaceRow& row, TokenId favourite, const RaceNoise& noise, int begin,
                   int end, const RaceKernels& kernels) {
  return winner_in({row, noise, kernels, begin, end}, favourite, [](TokenId) { return true; });
}

/// A winner of the whole row that is among the largest is theirs. Another is out, and so are all
/// behind it by logits: the others race again, with the same noise. As none of those is less likely
/// than one behind it, half of them are out with a chance of a half at least, whatever the row.
RaceWinner race_of_largest(const RaceRow& row, int count, TokenId favourite, const RaceNoise& noise,
                           const RaceKernels& kernels) {
  const auto size = static_cast<int>(row.logits.size());
  const auto logit = [&](TokenId token) { return row.logits[static_cast<std::size_t>(token)]; };
  RaceWinner winner = race(row, favourite, noise, kernels);
  while (kernels.rank(row.logits.data(), size, winner.token) >= count) {
    const TokenId out = winner.token;
    winner = winner_in({row, noise, kernels, 0, size}, favourite, [&](TokenId token) {
      return logit(token) > logit(out) || (logit(token) == logit(out) && token < out);
    });
  }
  return winner;
}

RaceWinner race_among(std::span<const TokenId> tokens, const RaceRow& row, const RaceNoise& noise) {
  RaceWinner best;
  for (const TokenId token : tokens) take_if_earlier({token, log_time(token, row, noise)}, best);
  expects(best.token >= 0, "a token that may be drawn");
  return best;
}

LargestLogit largest_logit(std::span<const float> logits) {
  const LargestLogit largest =
      best_race_kernels().largest(logits.data(), static_cast<int>(logits.size()));
  if (largest.has_nan) fail("sample a token: expected numbers as logits, found NaN");
  if (largest.value == -std::numeric_limits<float>::infinity()) {
    fail("sample a token: expected a token that may be drawn, found all banned");
  }
  if (std::isinf(largest.value)) fail("sample a token: expected finite logits, found infinity");
  return largest;
}

TokenId draw_by_race(std::span<const float> logits, const RaceDraw& draw) {
  const LargestLogit largest = largest_logit(logits);
  return race({logits, largest.value, draw.temperature}, largest.index, draw.noise).token;
}

void fill_gumbel(const GumbelNoise& noise, std::span<const TokenId> tokens, int begin,
                 std::span<float> out, const RaceKernels& kernels) {
  constexpr std::size_t kTile = 512;
  constexpr int kMostGroups = 64;
  std::array<std::uint32_t, kMostGroups * kWordGroup> words;
  std::array<std::uint32_t, kTile> of_tile;
  const auto token_at = [&](std::size_t i) {
    const auto index = static_cast<std::size_t>(begin) + i;
    return tokens.empty() ? static_cast<TokenId>(index) : tokens[index];
  };
  for (std::size_t done = 0; done < out.size();) {
    // As many neighbours as have their words in kMostGroups groups from the first one's on.
    const int first = token_at(done) / kWordGroup;
    int last = first;
    std::size_t end = done;
    for (; end < std::min(done + kTile, out.size()); ++end) {
      const int group = token_at(end) / kWordGroup;
      if (group < first || group >= first + kMostGroups) break;
      last = std::max(last, group);
    }
    kernels.words(noise.words, first, last - first + 1, words.data());
    for (std::size_t i = done; i < end; ++i) {
      of_tile[i - done] = words[static_cast<std::size_t>(token_at(i) - first * kWordGroup)];
    }
    const auto count = static_cast<int>(end - done);
    kernels.gumbel(of_tile.data(), count, noise.scale, out.data() + done);
    done = end;
  }
}

}  // namespace talon
