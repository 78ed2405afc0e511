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

}  // namespace talon
