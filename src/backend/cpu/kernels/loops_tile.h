#pragma once

// How tiles of weights are read, in terms of the lanes_*.h of one instruction set, which the
// including unit has included before.
namespace talon::cpu {
namespace {

/// What follows from a kind of tiles of codes.
template <TileKind kKind>
struct Layout {
  static constexpr TileShape kShape = kTileShapes[static_cast<int>(kKind)];
  static constexpr bool kBiased = !kShape.minimum;
  static constexpr int kGroups32 = kShape.unit_inputs / kInputGroup;
  static constexpr int kHalves = kInputGroup / kShape.group;
  static constexpr int kGroups = kGroups32 * kHalves;
  static constexpr int kScaleBytes = (kShape.super ? 64 + kLanes * kGroups : 64) +
                                     (kShape.minimum ? (kShape.super ? kLanes * kGroups : 64) : 0);
  static constexpr int kGroupBytes = kInputGroup * kLanes * kShape.bits / 8;
  static constexpr int kUnitBytes = kScaleBytes + kGroups32 * kGroupBytes;
};

template <bool kMinimum>
struct Scales {
  Floats scale;
  Floats minimum;
};

/// Scales number `index` of a unit: per group of 32, or 16.
template <bool kSuper, bool kMinimum>
inline Scales<kMinimum> scales_of(const std::byte* unit, int index, int groups, Floats d,
                                  Floats dmin) {
  Scales<kMinimum> scales{};
  if constexpr (kSuper) {
    const std::byte* codes = unit + 64 + kLanes * index;
    scales.scale = multiply(d, load_int8(codes));
    if constexpr (kMinimum) {
      scales.minimum = multiply(dmin, load_int8(codes + kLanes * groups));
    }
  } else {
    scales.scale = load_half(unit + 2 * kLanes * index);
    if constexpr (kMinimum) scales.minimum = load_half(unit + 64 + 2 * kLanes * index);
  }
  return scales;
}

/// Consecutive tiles read side by side: `at` lies in the first, in the others at the same place.
template <int kTiles>
struct Stream {
  const std::byte* at;
  std::size_t tile_bytes;
  int ahead;  // of prefetches

  const std::byte* operator[](int tile) const {
    return at + static_cast<std::size_t>(tile) * tile_bytes;
  }
};

/// Codes of one group of 32 inputs: vector j holds inputs 4j .. 4j + 3.
template <TileKind kKind>
inline void unpack(const std::byte* codes, Table table, Codes (&vectors)[8]) {
  if constexpr (Layout<kKind>::kShape.bits == 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vectors[j] = load_low(codes + 64 * j, table);
      vectors[j + 4] = load_high(codes + 64 * j, table);
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      vectors[j] = load_bytes<Layout<kKind>::kBiased>(codes + 64 * j);
    }
  }
}

}  // namespace
}  // namespace talon::cpu
