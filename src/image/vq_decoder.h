#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/types.h"
#include "image/picture.h"
#include "io/checkpoint.h"

namespace talon {

/// The decoder of a VQ tokenizer (VQGAN, arXiv:2012.09841) in the layout of LlamaGen or Chameleon:
/// codes of a grid of cells to pixels. The tensors tell layout, depth and widths. Immutable after
/// load, but for memory that a picture leaves to the next one.
class VqDecoder {
 public:
  /// For grids of one size. threads: that compute at most, the caller's included. Throws Error
  /// naming the tensor for one that is missing, of another shape, or not finite, and for a grid
  /// whose pictures need more memory than there is.
  VqDecoder(const Checkpoint& checkpoint, int rows, int columns, int threads = 1);
  ~VqDecoder();
  VqDecoder(VqDecoder&&) noexcept;

  int codes() const;  // of the codebook
  /// 16 hexadecimal digits by which a tokenizer is known: of the names and shapes of its tensors,
  /// in any order, and of the first values of each.
  const std::string& fingerprint() const;
  int width() const;  // of a picture, in pixels
  int height() const;
  /// What the network gives: [height, width, 3], about -1 to 1. REQUIRES: a code of the codebook
  /// for every cell, row by row.
  std::vector<float> values(std::span<const TokenId> codes) const;
  Picture decode(std::span<const TokenId> codes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
