#include "cli/terminal/half_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace talon {
namespace {

using Pixel = std::array<int, 3>;

/// A picture seen through a grid of fewer pixels.
class ScaledPicture {
 public:
  ScaledPicture(const Picture& picture, const TerminalSize& most) : picture_(picture) {
    const double fit = std::min({1.0, static_cast<double>(most.columns) / picture.width,
                                 2.0 * most.lines / picture.height});
    width_ = std::max(1, static_cast<int>(picture.width * fit));
    height_ = std::max(1, static_cast<int>(picture.height * fit));
  }
  int width() const { return width_; }
  int height() const { return height_; }

  Pixel at(int x, int y) const {
    const int left = x * picture_.width / width_, right = (x + 1) * picture_.width / width_;
    const int top = y * picture_.height / height_, bottom = (y + 1) * picture_.height / height_;
    Pixel sum{};
    for (int row = top; row < bottom; ++row) {
      for (int column = left; column < right; ++column) {
        const auto* pixel =
            picture_.rgb.data() + (static_cast<std::ptrdiff_t>(row) * picture_.width + column) * 3;
        for (std::size_t i = 0; i < 3; ++i) sum[i] += pixel[i];
      }
    }
    const int count = (right - left) * (bottom - top);
    for (int& value : sum) value = (value + count / 2) / count;
    return sum;
  }

 private:
  const Picture& picture_;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string half_blocks(const Picture& picture, const TerminalSize& most) {
  expects(picture.width > 0 && picture.height > 0 && most.columns > 0 && most.lines > 0,
          "a picture and room for it");
  const ScaledPicture scaled(picture, most);
  std::string text;
  for (int y = 0; y < scaled.height(); y += 2) {
    const bool has_lower = y + 1 < scaled.height();
    Pixel upper_before{-1, -1, -1}, lower_before = upper_before;
    for (int x = 0; x < scaled.width(); ++x) {
      const Pixel upper = scaled.at(x, y);
      if (upper != upper_before)
        text += fmt::format("\x1b[38;2;{};{};{}m", upper[0], upper[1], upper[2]);
      upper_before = upper;
      if (has_lower) {
        const Pixel lower = scaled.at(x, y + 1);
        if (lower != lower_before)
          text += fmt::format("\x1b[48;2;{};{};{}m", lower[0], lower[1], lower[2]);
        lower_before = lower;
      }
      text += "▀";
    }
    text += "\x1b[0m\x1b[K\n";
  }
  return text;
}

}  // namespace talon
