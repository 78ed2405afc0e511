#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "image/picture.h"

namespace talon {

/// Texts of a PNG file: key (Latin-1, 1 to 79 characters), then UTF-8.
using PngTexts = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a PNG file with 8 bits a channel.
std::vector<std::byte> encode_png(const Picture& picture, const PngTexts& texts = {});

/// The texts of a PNG file before its pixels, in their order. Throws Error with the path for what
/// is none.
PngTexts read_png_texts(const std::filesystem::path& path);

struct PngFile {
  Picture picture;  // what is seen through is white
  PngTexts texts;   // those before the pixels
};
/// Throws Error with the path for what is no PNG file, or one of more than `most_side` pixels a
/// side.
PngFile read_png(const std::filesystem::path& path, int most_side);

/// Writes it; the file appears when it is whole. Throws Error with the path and the reason.
void write_png(const std::filesystem::path& path, const Picture& picture,
               const PngTexts& texts = {});

}  // namespace talon
