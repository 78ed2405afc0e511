#include "tree/calibration.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

constexpr double kPriorTrials = 8;   // what the prior weighs
constexpr double kMostTrials = 128;  // then both counts are halved: old trials fade

}  // namespace

std::size_t Calibration::bucket_index(int depth, double predicted) {
  expects(depth >= 1, "a node below the root");
  const int row = std::min(depth, kDepths) - 1;
  const int column = std::clamp(static_cast<int>(predicted * kEstimates), 0, kEstimates - 1);
  return static_cast<std::size_t>(row * kEstimates + column);
}

double Calibration::probability(int depth, double predicted) const {
  const Bucket& bucket = buckets_[bucket_index(depth, predicted)];
  const double prior = prior_ ? prior_->probability(depth, predicted) : predicted;
  return (kPriorTrials * prior + bucket.right) / (kPriorTrials + bucket.trials);
}

void Calibration::observe(int depth, double predicted, bool right) {
  Bucket& bucket = buckets_[bucket_index(depth, predicted)];
  bucket.trials += 1;
  bucket.right += right ? 1 : 0;
  if (bucket.trials >= kMostTrials) {
    bucket.trials /= 2;
    bucket.right /= 2;
  }
}

}  // namespace talon
