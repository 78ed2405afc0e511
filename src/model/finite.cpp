#include "model/finite.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace talon {
namespace {

/// Where a block keeps its binary16 scale and, in some types, minimum.
struct ScalePlaces {
  std::size_t first;
  std::optional<std::size_t> second = std::nullopt;
};

ScalePlaces scale_places(StorageType type) {
  switch (type) {
    case StorageType::q8_0:
    case StorageType::q4_0:
    case StorageType::q5_0:
    case StorageType::iq4_nl:
    case StorageType::iq4_xs:
    case StorageType::iq2_xxs:
    case StorageType::iq1_s:
    case StorageType::iq2_xs:
    case StorageType::iq2_s:
    case StorageType::iq3_xxs:
    case StorageType::iq3_s:
      return {0};
    case StorageType::tq1_0:
      return {52};
    case StorageType::tq2_0:
      return {64};
    case StorageType::q4_1:
    case StorageType::q5_1:
    case StorageType::q4_k:
    case StorageType::q5_k:
      return {0, 2};
    case StorageType::q2_k:
      return {80, 82};
    case StorageType::q3_k:
      return {108};
    case StorageType::q6_k:
      return {208};
    default:
      expects(false, "a floating-point or quantised type");
      return {0};
  }
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

bool finite_half(const std::byte* from) { return (~load<std::uint16_t>(from) & 0x7C00U) != 0; }
bool finite_bf16(const std::byte* from) { return (~load<std::uint16_t>(from) & 0x7F80U) != 0; }
bool finite_single(const std::byte* from) {
  return (~load<std::uint32_t>(from) & 0x7F800000U) != 0;
}
bool finite_double(const std::byte* from) { return std::fabs(load<double>(from)) <= FLT_MAX; }

/// The first block of [first, last) that `good` refuses, or `last`. All of a chunk are looked at
/// together, which vectorises.
template <typename Good>
std::size_t scan(const std::byte* bytes, std::size_t stride, std::size_t first, std::size_t last,
                 Good good) {
  bool all_good = true;
  for (std::size_t block = first; block < last; ++block) all_good &= good(bytes + block * stride);
  if (all_good) return last;
  for (std::size_t block = first; block < last; ++block) {
    if (!good(bytes + block * stride)) return block;
  }
  return last;
}

std::size_t scan_type(StorageType type, const std::byte* bytes, std::size_t first,
                      std::size_t last) {
  const std::size_t stride = block_shape(type).bytes;
  switch (type) {
    case StorageType::f32:
      return scan(bytes, 4, first, last, finite_single);
    case StorageType::f16:
      return scan(bytes, 2, first, last, finite_half);
    case StorageType::bf16:
      return scan(bytes, 2, first, last, finite_bf16);
    case StorageType::f64:
      return scan(bytes, 8, first, last, finite_double);
    case StorageType::mxfp4:  // the largest scale whose largest value is finite: 12 * 2^124
      return scan(bytes, stride, first, last,
                  [](const std::byte* block) { return *block <= std::byte{252}; });
    case StorageType::nvfp4:
      return last;            // every scale is a number
    case StorageType::iq1_m:  // the exponent lies in the top nibbles of its last two words
      return scan(bytes, stride, first, last, [](const std::byte* block) {
        const unsigned high = load<std::uint16_t>(block + 54),
                       low = load<std::uint16_t>(block + 52);
        return (~((high & 0xF000U) | (low & 0xF000U) >> 4) & 0x7C00U) != 0;
      });
    default:
      break;
  }
  const ScalePlaces places = scale_places(type);
  const std::size_t second = places.second.value_or(places.first);
  return scan(bytes, stride, first, last, [&](const std::byte* block) {
    return finite_half(block + places.first) & finite_half(block + second);
  });
}

}  // namespace

std::optional<std::size_t> find_not_finite(StorageType type, std::span<const std::byte> bytes,
                                           ThreadPool& pool) {
  constexpr std::size_t kChunk = 1 << 14;                       // blocks a thread takes at a time
  constexpr std::size_t kWorthSharing = std::size_t{1} << 20U;  // bytes
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const BlockShape block = block_shape(type);
  const std::size_t blocks = bytes.size() / block.bytes;
  if (bytes.size() < kWorthSharing) {
    const std::size_t bad = scan_type(type, bytes.data(), 0, blocks);
    return bad < blocks ? std::optional(bad * block.elements) : std::nullopt;
  }
  std::atomic<std::size_t> found{kNone};
  pool.run([&](int) {
    for (std::size_t first; (first = pool.next(0, kChunk)) < blocks;) {
      const std::size_t last = std::min(first + kChunk, blocks);
      const std::size_t bad = scan_type(type, bytes.data(), first, last);
      if (bad < last) found = bad;
    }
  });
  if (found == kNone) return std::nullopt;
  return found * block.elements;
}

}  // namespace talon
