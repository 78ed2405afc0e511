#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/types.h"
#include "image/picture.h"
#include "io/checkpoint.h"

namespace talon {

/// The encoder of a VQ tokenizer (VQGAN, arXiv:2012.09841) in the layout of LlamaGen or Chameleon:
/// pictures to codes of a grid of cells. The tensors tell layout, depth and widths. Immutable after
/// load, but for memory that a picture leaves to the next one.
class VqEncoder {
 public:
  /// For pictures of one size, in pixels. threads: that compute at most, the caller's included.
  /// Throws Error naming the tensor for one that is missing, of another shape, or not finite, and
  /// for sides that are no whole cells, too long, or such that a picture needs more memory than
  /// there is.
  VqEncoder(const Checkpoint& checkpoint, int width, int height, int threads = 1);
  ~VqEncoder();
  VqEncoder(VqEncoder&&) noexcept;

  int codes() const;  // of the codebook
  int rows() const;   // of the grid
  int columns() const;
  /// What the network makes of pixels [height, width, 3], from -1 to 1: [rows, columns, width of a
  /// code], of length 1 where the codes are. Throws Error for what is not finite.
  std::vector<float> vectors(std::span<const float> pixels) const;
  /// The code that is nearest to the vector of each cell, row by row; of equal ones the smallest.
  std::vector<TokenId> codes_of(std::span<const float> pixels) const;
  /// REQUIRES: a picture of that size.
  std::vector<TokenId> encode(const Picture& picture) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
