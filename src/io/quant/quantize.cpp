#include "io/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "io/storage_type.h"

namespace talon {

std::vector<std::byte> quantize_q8_0(std::span<const float> values) {
  const BlockShape block = block_shape(StorageType::q8_0);
  expects(values.size() % block.elements == 0, "whole blocks");
  std::vector<std::byte> bytes(values.size() / block.elements * block.bytes);
  std::byte* out = bytes.data();
  for (std::size_t at = 0; at < values.size(); at += block.elements, out += block.bytes) {
    const auto some = values.subspan(at, block.elements);
    float largest = 0;
    for (const float value : some) largest = std::max(largest, std::abs(value));
    const float scale = largest / 127;
    const float inverse = scale > 0 ? 1 / scale : 0;
    const std::uint16_t half = float_to_half(scale);
    std::memcpy(out, &half, sizeof(half));
    for (std::size_t i = 0; i < some.size(); ++i)
      out[sizeof(half) + i] =
          static_cast<std::byte>(static_cast<std::int8_t>(std::round(some[i] * inverse)));
  }
  return bytes;
}

NibbleGroup quantize_nibbles(std::span<const float> values) {
  constexpr float kMostOfHalf = 65504;
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  NibbleGroup group;
  group.minimum = float_to_half(std::clamp(*least, -kMostOfHalf, kMostOfHalf));
  const float minimum = half_to_float(group.minimum);
  group.scale = float_to_half(std::clamp((*largest - minimum) / 15.0F, 0.0F, kMostOfHalf));
  const float scale = half_to_float(group.scale);
  for (std::size_t i = 0; i < values.size() && scale > 0; ++i) {
    const float code = std::clamp(std::nearbyint((values[i] - minimum) / scale), 0.0F, 15.0F);
    group.code[i] = static_cast<std::uint8_t>(static_cast<int>(code));
  }
  return group;
}

std::vector<std::byte> quantize_q4_1(std::span<const float> values) {
  const BlockShape block = block_shape(StorageType::q4_1);
  expects(values.size() % block.elements == 0, "whole blocks");
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() / block.elements * block.bytes);
  for (std::size_t at = 0; at < values.size(); at += block.elements) {
    const NibbleGroup group = quantize_nibbles(values.subspan(at, block.elements));
    for (const std::uint16_t half : {group.scale, group.minimum}) {
      bytes.push_back(static_cast<std::byte>(half & 0xFF));
      bytes.push_back(static_cast<std::byte>(half >> 8));
    }
    for (std::size_t i = 0; i < block.elements / 2; ++i) {
      const int pair = group.code[i] | group.code[i + block.elements / 2] << 4;
      bytes.push_back(static_cast<std::byte>(pair));
    }
  }
  return bytes;
}

}  // namespace talon
