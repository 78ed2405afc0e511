#include "image/animation.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/error.h"

// libpng writes no animations: its chunks of single pictures are put together to one.
namespace talon {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kSignature = 8, kLengthAndName = 8, kChecksum = 4;
constexpr std::uint16_t kMilliseconds = 1000;

void put(std::uint64_t value, int bytes, Bytes& out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out.push_back(static_cast<std::byte>(value >> shift & 0xff));
}

std::uint32_t get(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = value << 8 | std::to_integer<unsigned>(byte);
  return value;
}

void put_chunk(std::string_view name, std::span<const std::byte> data, Bytes& out) {
  put(data.size(), 4, out);
  const std::size_t begin = out.size();
  for (const char letter : name) out.push_back(static_cast<std::byte>(letter));
  out.insert(out.end(), data.begin(), data.end());
  const auto* bytes = reinterpret_cast<const Bytef*>(out.data() + begin);
  put(crc32(0, bytes, static_cast<uInt>(out.size() - begin)), 4, out);
}

/// Calls use(name, its data, the whole chunk) for each chunk of a PNG file that libpng wrote.
template <typename Use>
void each_chunk(std::span<const std::byte> file, const Use& use) {
  for (auto rest = file.subspan(kSignature); !rest.empty();) {
    const std::size_t size = get(rest);
    const auto* name = reinterpret_cast<const char*>(rest.data()) + 4;
    const std::size_t whole = kLengthAndName + size + kChecksum;
    use(std::string_view(name, 4), rest.subspan(kLengthAndName, size), rest.first(whole));
    rest = rest.subspan(whole);
  }
}

struct Region {
  int left = 0, top = 0, right = 0, bottom = 0;  // the last two outside
};

/// What of `now` differs from `before`; one pixel where nothing does.
Region changed(const Picture& before, const Picture& now) {
  Region region{now.width, now.height, 0, 0};
  const auto* a = before.rgb.data();
  const auto* b = now.rgb.data();
  for (int y = 0; y < now.height; ++y) {
    for (int x = 0; x < now.width; ++x, a += 3, b += 3) {
      if (std::equal(a, a + 3, b)) continue;
      region = {std::min(region.left, x), std::min(region.top, y), std::max(region.right, x + 1),
                std::max(region.bottom, y + 1)};
    }
  }
  return region.right == 0 ? Region{0, 0, 1, 1} : region;
}

Picture cut(const Picture& picture, const Region& region) {
  Picture part{region.right - region.left, region.bottom - region.top, {}};
  for (int y = region.top; y < region.bottom; ++y) {
    const auto row =
        picture.rgb.begin() + (static_cast<std::ptrdiff_t>(y) * picture.width + region.left) * 3;
    part.rgb.insert(part.rgb.end(), row, row + static_cast<std::ptrdiff_t>(part.width) * 3);
  }
  return part;
}

/// Writes a frame's chunks; `number` counts them over all frames.
void put_frame(const Picture& part, const Region& region, int ms, std::uint32_t& number,
               Bytes& out) {
  Bytes control;
  put(number++, 4, control);
  put(static_cast<std::uint32_t>(part.width), 4, control);
  put(static_cast<std::uint32_t>(part.height), 4, control);
  put(static_cast<std::uint32_t>(region.left), 4, control);
  put(static_cast<std::uint32_t>(region.top), 4, control);
  put(static_cast<std::uint32_t>(std::clamp(ms, 0, 0xffff)), 2, control);
  put(kMilliseconds, 2, control);
  put(0, 2, control);  // left as it is for the next frame; replaces what is there
  put_chunk("fcTL", control, out);
  const Bytes file = encode_png(part);
  each_chunk(file, [&](std::string_view name, std::span<const std::byte> data, auto) {
    if (name != "IDAT") return;
    Bytes numbered;
    put(number++, 4, numbered);
    numbered.insert(numbered.end(), data.begin(), data.end());
    put_chunk("fdAT", numbered, out);
  });
}

}  // namespace

std::vector<std::byte> encode_animation(const Picture& still,
                                        std::span<const AnimationFrame> frames,
                                        const PngTexts& texts) {
  expects(!frames.empty(), "an animation with frames");
  for (const AnimationFrame& frame : frames) {
    expects(frame.picture.width == still.width && frame.picture.height == still.height,
            "frames of one size");
  }
  const Bytes file = encode_png(still, texts);
  Bytes out(file.begin(), file.begin() + kSignature);
  each_chunk(file, [&](std::string_view name, auto, std::span<const std::byte> chunk) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; name == "IEND" && i < frames.size(); ++i) {
      const Picture& picture = frames[i].picture;
      const Region all{0, 0, still.width, still.height};
      const Region region = i == 0 ? all : changed(frames[i - 1].picture, picture);
      put_frame(cut(picture, region), region, frames[i].ms, number, out);
    }
    out.insert(out.end(), chunk.begin(), chunk.end());
    if (name != "IHDR") return;
    Bytes control;
    put(frames.size(), 4, control);
    put(0, 4, control);  // times: without end
    put_chunk("acTL", control, out);
  });
  return out;
}

}  // namespace talon
