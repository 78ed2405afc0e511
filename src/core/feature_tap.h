#pragma once

namespace talon {

/// An internal vector of the target, for each row. Who reads several gets them side by side, in the
/// order in which it names them.
struct FeatureTap {
  /// After the last layer and the final norm: what the output matrix reads (EAGLE-1/2).
  static constexpr int kFinalNorm = -1;
  int layer = kFinalNorm;  // else the un-normalised residual stream entering this layer (EAGLE-3)

  bool operator==(const FeatureTap&) const = default;
};

}  // namespace talon
