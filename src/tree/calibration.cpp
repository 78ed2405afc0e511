#include "tree/calibration.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

constexpr double kPriorWeight = 3;    // promised rights that the prior is worth
constexpr double kMostPromised = 64;  // then both sums are halved: old trials fade
constexpr double kMostChance = 0.999;
/// Closer together where estimates are large: there a small error of the estimate is a large one of
/// the length that is worth drafting.
constexpr std::array kCentres = {0.001, 0.005, 0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.85, 0.97};

std::size_t row_of(int depth, int depths) {
  expects(depth >= 1, "a node below the root");
  return static_cast<std::size_t>(std::min(depth, depths) - 1);
}

}  // namespace

Calibration::Place Calibration::place_of(double predicted) {
  static_assert(kCentres.size() == kBuckets);
  const auto above = std::upper_bound(kCentres.begin(), kCentres.end(), predicted);
  if (above == kCentres.begin()) return {0, 0};
  const auto below = static_cast<std::size_t>(above - kCentres.begin()) - 1;
  if (above == kCentres.end()) return {below, 0};
  return {below, (predicted - kCentres[below]) / (*above - kCentres[below])};
}

double Calibration::ratio(std::size_t depth_row, std::size_t bucket) const {
  const double prior = prior_ ? prior_->ratio(depth_row, bucket) : 1;
  const Bucket& counts = buckets_[depth_row][bucket];
  return (kPriorWeight * prior + counts.right) / (kPriorWeight + counts.promised);
}

double Calibration::probability(int depth, double predicted) const {
  const std::size_t row = row_of(depth, kDepths);
  const auto [below, share] = place_of(predicted);
  const std::size_t above = std::min<std::size_t>(below + 1, kBuckets - 1);
  const double factor = (1 - share) * ratio(row, below) + share * ratio(row, above);
  return std::clamp(predicted * factor, 0.0, std::max(predicted, kMostChance));
}

void Calibration::observe(int depth, double predicted, bool right) {
  const std::size_t row = row_of(depth, kDepths);
  const auto [below, share] = place_of(predicted);
  const auto count = [&](std::size_t bucket, double weight) {
    Bucket& counts = buckets_[row][bucket];
    counts.promised += weight * predicted;
    counts.right += right ? weight : 0;
    if (counts.promised < kMostPromised) return;
    counts.promised /= 2;
    counts.right /= 2;
  };
  count(below, 1 - share);
  if (share > 0) count(below + 1, share);
}

}  // namespace talon
