#include "backend/cpu/cpu_race.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace talon::cpu {
namespace {

constexpr std::size_t kTokensWorthSharing = 4096;  // fewer are done by the caller alone

/// Of `total` tokens those of one worker, whole groups of words but for the last.
struct Range {
  int begin = 0, end = 0;
};
Range part_of(std::size_t total, int worker, int workers) {
  const std::size_t groups = (total + kWordGroup - 1) / kWordGroup;
  const auto edge = [&](int before) {
    const std::size_t group =
        groups * static_cast<std::size_t>(before) / static_cast<std::size_t>(workers);
    return static_cast<int>(std::min(group * kWordGroup, total));
  };
  return {edge(worker), edge(worker + 1)};
}

float vouching(const LargestLogit& largest) {
  return largest.has_nan ? std::numeric_limits<float>::quiet_NaN() : largest.value;
}

}  // namespace

Race::Race(ThreadPool& pool) : pool_(pool), parts_(static_cast<std::size_t>(pool.threads())) {}

TokenId Race::run(std::span<const float> logits, const RaceDraw& draw, float& largest) {
  const auto race_of = [&](const LargestLogit& of_row, Range range) {
    const RaceRow row{logits, of_row.value, draw.temperature};
    return race_in(row, of_row.index, draw.noise, range.begin, range.end, kernels_);
  };
  if (logits.size() < kTokensWorthSharing || pool_.active() == 1) {
    const auto count = static_cast<int>(logits.size());
    const LargestLogit of_row = kernels_.largest(logits.data(), count);
    largest = vouching(of_row);
    return std::isfinite(largest) ? race_of(of_row, {0, count}).token : of_row.index;
  }
  const int workers = pool_.active();
  pool_.run([&](int worker) {
    Part& part = parts_[static_cast<std::size_t>(worker)];
    const Range range = part_of(logits.size(), worker, workers);
    part = {};
    if (range.begin < range.end) {
      part.largest = kernels_.largest(logits.data() + range.begin, range.end - range.begin);
      part.largest.index += range.begin;
    } else {
      part.largest.value = -std::numeric_limits<float>::infinity();
    }
    pool_.barrier();
    const LargestLogit of_row = largest_of_parts(workers);
    if (std::isfinite(vouching(of_row))) part.winner = race_of(of_row, range);
  });
  const LargestLogit of_row = largest_of_parts(workers);
  largest = vouching(of_row);
  if (!std::isfinite(largest)) return of_row.index;
  RaceWinner winner;
  for (int i = 0; i < workers; ++i)
    take_if_earlier(parts_[static_cast<std::size_t>(i)].winner, winner);
  return winner.token;
}

LargestLogit Race::largest_of_parts(int workers) const {
  LargestLogit largest = parts_.front().largest;
  for (int i = 1; i < workers; ++i) {
    const LargestLogit& other = parts_[static_cast<std::size_t>(i)].largest;
    const bool has_nan = largest.has_nan || other.has_nan;
    if (other.value > largest.value) largest = other;
    largest.has_nan = has_nan;
  }
  return largest;
}

void Race::fill(const GumbelNoise& noise, std::span<const TokenId> tokens, std::span<float> out) {
  if (out.size() < kTokensWorthSharing || pool_.active() == 1) {
    return fill_gumbel(noise, tokens, 0, out, kernels_);
  }
  const int workers = pool_.active();
  pool_.run([&](int worker) {
    const Range range = part_of(out.size(), worker, workers);
    const auto count = static_cast<std::size_t>(range.end - range.begin);
    fill_gumbel(noise, tokens, range.begin,
                out.subspan(static_cast<std::size_t>(range.begin), count), kernels_);
  });
}

}  // namespace talon::cpu
