#pragma once

#include <array>
#include <map>
#include <vector>

#include "engine/round/round_report.h"
#include "io/json.h"
#include "tree/calibration.h"

namespace talon {

/// Whether a drafter's chances come true: every checked node of its own whose parent became text is
/// a trial of the chance that it follows, as the drafter said it (before) and as an online
/// Calibration, which saw only earlier rounds, corrected it (after).
class Reliability {
 public:
  static constexpr int kBuckets = 10;  // equal parts of [0, 1]
  static constexpr int kDepths = 4;    // 1, 2, 3, 4 and deeper
  struct Bucket {
    int trials = 0;
    int right = 0;
    double predicted = 0;  // the sum of the chances
  };
  /// Trials of all depths, or of one.
  struct Diagram {
    std::array<Bucket, kBuckets> buckets{};
    double squared_error = 0;  // summed over trials

    void add(double predicted, bool right);
    int trials() const;
    /// Mean over trials of how far the share of rights lies from what its bucket promised.
    double calibration_error() const;
    double brier() const;
  };

  void add(const RoundReport& round);

  const Diagram& before(int depth) const { return before_[index(depth)]; }  // 0: all depths
  const Diagram& after(int depth) const { return after_[index(depth)]; }

  /// Lines {"stage": before|after, "depth" (0: all), "bucket", "trials", "right", "predicted"}.
  std::vector<Json> lines() const;
  /// {"before": {"trials", "calibration_error", "brier"}, "after": {...}}
  Json summary() const;

 private:
  static std::size_t index(int depth);

  Calibration calibration_;
  std::array<Diagram, kDepths + 1> before_{}, after_{};
};

}  // namespace talon
