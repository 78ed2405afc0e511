#pragma once

#include <array>

namespace talon {

/// How often draft nodes are right, against how sure the drafter was. Learns, by depth and by the
/// drafter's estimate of the chance that a node is right given that its parent is, the ratio of
/// rights to what the estimates promised; recent trials count most. Between the centres of two
/// buckets of estimates the ratio is interpolated, so that nodes keep their order within a depth.
class Calibration {
 public:
  /// With few trials the answer stays near `prior`'s (borrowed), or near the drafter's own estimate
  /// when there is none.
  explicit Calibration(const Calibration* prior = nullptr) : prior_(prior) {}

  /// depth: of the node, 1 for a child of the root. predicted: the drafter's chance that the node
  /// follows its parent, in [0, 1].
  double probability(int depth, double predicted) const;
  void observe(int depth, double predicted, bool right);

 private:
  static constexpr int kDepths = 4;  // 1, 2, 3, 4 and deeper
  static constexpr int kBuckets = 10;
  struct Bucket {
    double right = 0;
    double promised = 0;  // the sum of the estimates
  };
  /// Where an estimate lies between bucket centres.
  struct Place {
    std::size_t below;
    double share_above;
  };
  static Place place_of(double predicted);
  double ratio(std::size_t depth_row, std::size_t bucket) const;

  const Calibration* prior_;
  std::array<std::array<Bucket, kBuckets>, kDepths> buckets_{};
};

}  // namespace talon
