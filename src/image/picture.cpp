#include "image/picture.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

Picture sheet_of(std::span<const Picture> pictures, int columns, int gap) {
  expects(!pictures.empty() && columns > 0 && gap >= 0, "pictures for a sheet");
  const int count = static_cast<int>(pictures.size());
  const int across = std::min(columns, count), rows = (count + across - 1) / across;
  const int width = pictures[0].width, height = pictures[0].height;
  Picture sheet{across * (width + gap) - gap, rows * (height + gap) - gap, {}};
  const auto row_bytes = static_cast<std::size_t>(sheet.width) * 3;
  sheet.rgb.assign(row_bytes * static_cast<std::size_t>(sheet.height), 255);
  for (int i = 0; i < count; ++i) {
    const Picture& picture = pictures[static_cast<std::size_t>(i)];
    expects(picture.width == width && picture.height == height, "pictures of one size");
    const auto left = static_cast<std::size_t>(i % across * (width + gap)) * 3;
    const auto top = static_cast<std::size_t>(i / across * (height + gap));
    const auto bytes = static_cast<std::ptrdiff_t>(width) * 3;
    for (int y = 0; y < height; ++y) {
      const auto from = picture.rgb.begin() + y * bytes;
      std::copy(from, from + bytes,
                sheet.rgb.begin() + static_cast<std::ptrdiff_t>(
                                        (top + static_cast<std::size_t>(y)) * row_bytes + left));
    }
  }
  return sheet;
}

}  // namespace talon
