#include "image/animation.h"

#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <string>

namespace talon::animation_test {
namespace {

using Bytes = std::vector<std::byte>;

struct Chunk {
  std::string name;
  Bytes data;
};

std::uint32_t number(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<unsigned>(byte);
  return value;
}

std::vector<Chunk> chunks_of(const Bytes& file) {
  std::vector<Chunk> chunks;
  for (auto rest = std::span(file).subspan(8); !rest.empty();) {
    const std::size_t size = number(rest.first(4));
    const auto named = rest.subspan(4, size + 4);
    EXPECT_EQ(
        number(rest.subspan(size + 8, 4)),
        crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size())));
    const auto data = rest.subspan(8, size);
    chunks.push_back({std::string(reinterpret_cast<const char*>(named.data()), 4),
                      Bytes(data.begin(), data.end())});
    rest = rest.subspan(size + 12);
  }
  return chunks;
}

void put(std::uint32_t value, Bytes& out) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<std::byte>(value >> shift));
}

void put(const std::string& name, const Bytes& data, Bytes& out) {
  put(static_cast<std::uint32_t>(data.size()), out);
  Bytes named;
  for (const char letter : name) named.push_back(static_cast<std::byte>(letter));
  named.insert(named.end(), data.begin(), data.end());
  out.insert(out.end(), named.begin(), named.end());
  const auto* bytes = reinterpret_cast<const Bytef*>(named.data());
  put(static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(named.size()))), out);
}

Picture read_png(const Bytes& file) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&image, file.data(), file.size()));
  image.format = PNG_FORMAT_RGB;
  Picture picture{static_cast<int>(image.width), static_cast<int>(image.height), {}};
  picture.rgb.resize(PNG_IMAGE_SIZE(image));
  EXPECT_TRUE(png_image_finish_read(&image, nullptr, picture.rgb.data(), 0, nullptr));
  return picture;
}

/// What a viewer shows: each frame is a PNG of its own, drawn over the one before at its place.
std::vector<Picture> play(const std::vector<Chunk>& chunks) {
  std::vector<Picture> shown;
  Picture screen{static_cast<int>(number(std::span(chunks[0].data).first(4))),
                 static_cast<int>(number(std::span(chunks[0].data).subspan(4, 4))),
                 {}};
  screen.rgb.resize(static_cast<std::size_t>(screen.width * screen.height) * 3);
  std::uint32_t expected = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].name != "fcTL") continue;
    const auto field = [&](std::size_t at) {
      return number(std::span(chunks[i].data).subspan(at, 4));
    };
    EXPECT_EQ(field(0), expected++);
    const auto left = static_cast<std::ptrdiff_t>(field(12));
    const auto top = static_cast<std::ptrdiff_t>(field(16));
    Bytes header(chunks[i].data.begin() + 4, chunks[i].data.begin() + 12);
    header.insert(header.end(), chunks[0].data.begin() + 8, chunks[0].data.end());
    Bytes data;
    while (i + 1 < chunks.size() && chunks[i + 1].name == "fdAT") {
      const Bytes& next = chunks[++i].data;
      EXPECT_EQ(number(std::span(next).first(4)), expected++);
      data.insert(data.end(), next.begin() + 4, next.end());
    }
    Bytes file;
    for (const int byte : {137, 80, 78, 71, 13, 10, 26, 10})
      file.push_back(static_cast<std::byte>(byte));
    put("IHDR", header, file);
    put("IDAT", data, file);
    put("IEND", {}, file);
    const Picture part = read_png(file);
    for (int y = 0; y < part.height; ++y) {
      std::copy_n(part.rgb.begin() + static_cast<std::ptrdiff_t>(y) * part.width * 3,
                  part.width * 3, screen.rgb.begin() + ((top + y) * screen.width + left) * 3);
    }
    shown.push_back(screen);
  }
  return shown;
}

Picture picture_of(int seed) {
  Picture picture{7, 5, {}};
  for (int i = 0; i < 7 * 5 * 3; ++i)
    picture.rgb.push_back(static_cast<std::uint8_t>(i % 11 == seed ? 200 : i));
  return picture;
}

TEST(Animation, ShowsItsFramesOneAfterTheOther) {
  const Picture same = picture_of(2);
  Picture corner = same;
  corner.rgb.back() = 1;
  const std::vector<AnimationFrame> frames = {
      {picture_of(1), 60}, {same, 60}, {same, 70000}, {corner, 5}};
  const Bytes file = encode_animation(picture_of(4), frames, {{"prompt", "red cat"}});
  const auto chunks = chunks_of(file);
  EXPECT_EQ(chunks[0].name, "IHDR");
  EXPECT_EQ(chunks[1].name, "acTL");
  EXPECT_EQ(number(std::span(chunks[1].data).first(4)), 4u);
  EXPECT_EQ(chunks.back().name, "IEND");
  const auto shown = play(chunks);
  ASSERT_EQ(shown.size(), frames.size());
  for (std::size_t i = 0; i < shown.size(); ++i)
    EXPECT_EQ(shown[i].rgb, frames[i].picture.rgb) << i;
  EXPECT_EQ(read_png(file).rgb, picture_of(4).rgb) << "what others show";
  std::vector<int> widths;
  for (const Chunk& chunk : chunks) {
    if (chunk.name == "fcTL")
      widths.push_back(static_cast<int>(number(std::span(chunk.data).subspan(4, 4))));
  }
  EXPECT_EQ(widths[2], 1) << "nothing changed";
  EXPECT_EQ(widths[3], 1) << "one pixel changed";
}

}  // namespace
}  // namespace talon::animation_test
