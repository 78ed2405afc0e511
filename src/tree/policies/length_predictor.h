#pragma once

#include <span>
#include <vector>

#include "tree/policies/dense.h"

namespace talon {

/// AdaEAGLE's light-weight draft length predictor (LDLP), arXiv:2412.18910: from the embedding of
/// the last token that the target has seen and the target's last hidden state there, how many
/// drafted tokens will be accepted. Three layers, residual links round the second and third, SiLU
/// between; the paper leaves width and activation open (docs/policies.md has the file's layout).
class LengthPredictor {
 public:
  /// asymmetric: one output, the length, trained with the paper's loss. ordinal: an output per
  /// length k, the logit of the chance that at least k tokens are accepted.
  enum class Kind { asymmetric, ordinal };

  /// Throws Error for a file that is none.
  explicit LengthPredictor(const Checkpoint& file);

  Kind kind() const { return kind_; }
  int inputs() const { return in_.inputs(); }  // twice the target's hidden size
  int most() const { return most_; }           // the longest draft that it was trained to predict
  /// What predict() computes in: one for each thread.
  struct Scratch {
    std::vector<float> x, step, result;
  };
  /// feature: [inputs()]. asymmetric: one number; ordinal: most() chances, made to fall. Lies in
  /// `scratch`.
  std::span<const float> predict(std::span<const float> feature, Scratch& scratch) const;

 private:
  Kind kind_ = Kind::asymmetric;
  int most_ = 0;
  Dense in_;
  std::vector<Dense> blocks_;
  Dense out_;
};

}  // namespace talon
