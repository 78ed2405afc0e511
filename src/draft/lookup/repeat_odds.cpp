#include "draft/lookup/repeat_odds.h"

#include <algorithm>

namespace talon {
namespace {

constexpr double kPriorTrials = 6;
constexpr double kAgedTrials = 24;
constexpr double kMostTrials = 256;  // then both counts are halved: old trials fade
constexpr double kFirstGuess[] = {0.25, 0.4, 0.5, 0.6, 0.68, 0.75, 0.82, 0.9};
constexpr int kLongestLength[] = {1, 2, 3, 4, 6, 9, 15};
constexpr int kMostPlaces[] = {1, 2, 5};

}  // namespace

RepeatOdds::RepeatOdds() {
  for (std::size_t length = 0; length < kLengths; ++length) {
    for (std::size_t places = 0; places < kPlaces; ++places) {
      counts_[length * kPlaces + places] = {kFirstGuess[length] * kPriorTrials, kPriorTrials};
    }
  }
}

std::size_t RepeatOdds::index(int length, int places) {
  const auto row = std::lower_bound(std::begin(kLongestLength), std::end(kLongestLength), length) -
                   std::begin(kLongestLength);
  const auto column = std::lower_bound(std::begin(kMostPlaces), std::end(kMostPlaces), places) -
                      std::begin(kMostPlaces);
  return static_cast<std::size_t>(row * kPlaces + column);
}

double RepeatOdds::chance(int length, int places) const {
  const Counts& counts = counts_[index(length, places)];
  return counts.repeated / counts.trials;
}

void RepeatOdds::observe(int length, int places, bool repeated) {
  Counts& counts = counts_[index(length, places)];
  counts.trials += 1;
  counts.repeated += repeated ? 1 : 0;
  if (counts.trials >= kMostTrials) counts = {counts.repeated / 2, counts.trials / 2};
}

RepeatOdds RepeatOdds::aged() const {
  RepeatOdds result = *this;
  for (Counts& counts : result.counts_) {
    if (counts.trials <= kAgedTrials) continue;
    counts = {counts.repeated / counts.trials * kAgedTrials, kAgedTrials};
  }
  return result;
}

}  // namespace talon
