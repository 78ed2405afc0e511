#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "train/image/pictures.h"

namespace talon {

/// A picture moved by a few pixels, what is uncovered white, and perhaps mirrored.
struct PictureView {
  std::size_t picture = 0;
  int right = 0, down = 0;
  bool mirrored = false;
};

/// A view drawn with `random`, up to `most` pixels away.
PictureView draw_view(const PictureSet& pictures, std::size_t picture, int most,
                      std::uint64_t random);

/// [views, 3, side, side] float32 from -1 to 1.
torch::Tensor render(const PictureSet& pictures, std::span<const PictureView> views);

/// An endless order of pictures, each once an epoch, shuffled anew in each. What stands at a place
/// depends on the seed and the place alone.
class PictureOrder {
 public:
  PictureOrder(std::vector<std::size_t> pictures, std::uint64_t seed)
      : pictures_(std::move(pictures)), seed_(seed) {}
  std::size_t at(std::int64_t place);
  std::size_t size() const { return pictures_.size(); }

 private:
  std::vector<std::size_t> pictures_, shuffled_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
};

/// 64 bits that depend on what is given alone.
std::uint64_t random_at(std::uint64_t seed, std::uint64_t place);

}  // namespace talon
