#include "train/image/views.h"

#include <algorithm>

#include "core/philox.h"

namespace talon {
namespace {

constexpr std::uint64_t kOrder = std::uint64_t{1} << 62;  // places of shuffles, apart from others

void render_view(const PictureSet& pictures, const PictureView& view, float* to) {
  const int side = pictures.side();
  const auto from = pictures.pixels(view.picture);
  for (int color = 0; color < 3; ++color) {
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const int source_y = y - view.down;
        const int moved = x - view.right;
        const int source_x = view.mirrored ? side - 1 - moved : moved;
        const bool inside = source_y >= 0 && source_y < side && source_x >= 0 && source_x < side;
        const int at = (source_y * side + source_x) * 3 + color;
        const int value = inside ? from[static_cast<std::size_t>(at)] : 255;
        *to++ = static_cast<float>(value) / 127.5f - 1.0f;
      }
    }
  }
}

}  // namespace

std::uint64_t random_at(std::uint64_t seed, std::uint64_t place) {
  const auto words =
      philox4x32({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return words[0] | (static_cast<std::uint64_t>(words[1]) << 32);
}

PictureView draw_view(const PictureSet& pictures, std::size_t picture, int most,
                      std::uint64_t random) {
  const auto span = static_cast<std::uint64_t>(2 * most + 1);
  PictureView view{.picture = picture};
  view.right = static_cast<int>(random % span) - most;
  view.down = static_cast<int>((random >> 16) % span) - most;
  view.mirrored = pictures.facts(picture).may_be_mirrored && ((random >> 32) & 1) != 0;
  return view;
}

torch::Tensor render(const PictureSet& pictures, std::span<const PictureView> views) {
  const std::int64_t side = pictures.side();
  torch::Tensor batch =
      torch::empty({static_cast<std::int64_t>(views.size()), 3, side, side}, torch::kFloat);
  float* to = batch.data_ptr<float>();
  for (const PictureView& view : views) {
    render_view(pictures, view, to);
    to += 3 * side * side;
  }
  return batch;
}

std::size_t PictureOrder::at(std::int64_t place) {
  const auto count = static_cast<std::int64_t>(pictures_.size());
  const std::int64_t epoch = place / count;
  if (epoch != epoch_) {
    shuffled_ = pictures_;
    for (std::size_t i = shuffled_.size(); i > 1; --i) {
      const auto step = static_cast<std::uint64_t>(epoch * count) + i;
      std::swap(shuffled_[i - 1], shuffled_[random_at(seed_, kOrder + step) % i]);
    }
    epoch_ = epoch;
  }
  return shuffled_[static_cast<std::size_t>(place % count)];
}

}  // namespace talon
