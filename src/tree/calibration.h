#pragma once

#include <array>

namespace talon {

/// How often draft nodes are right, against how sure the drafter was. Learns the chance that a node
/// is right given that its parent is, in buckets of depth and of the drafter's own estimate of that
/// chance; the last few hundred trials of a bucket count.
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
  static constexpr int kDepths = 4;      // 1, 2, 3, 4 and deeper
  static constexpr int kEstimates = 10;  // equal parts of [0, 1]
  struct Bucket {
    double right = 0;
    double trials = 0;
  };
  static std::size_t bucket_index(int depth, double predicted);

  const Calibration* prior_;
  std::array<Bucket, static_cast<std::size_t>(kDepths) * kEstimates> buckets_{};
};

}  // namespace talon
