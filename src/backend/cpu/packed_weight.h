#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/huge_memory.h"
#include "backend/cpu/kernels/kernels.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// A matrix in tiles of 16 outputs, in a layout of TileKind.
struct PackedWeight : Weight {
  TileKind kind = TileKind::f32;
  std::array<std::uint8_t, 16> table{};  // of nibble kinds: what code i stands for
  float pre_scale = 1.0F;                // of super kinds
  int units = 0;                         // of a tile
  std::size_t tile_bytes = 0;
  int tiles = 0;
  std::shared_ptr<std::byte> data;

  const TileShape& shape() const { return kTileShapes[static_cast<std::size_t>(kind)]; }
  bool is_float() const { return kind >= TileKind::f32; }
  std::byte* tile(int index) const {
    return data.get() + static_cast<std::size_t>(index) * tile_bytes;
  }
};

/// Repacks a stored matrix on all workers. Throws Error if a value is not finite or the bytes are
/// not those of the shape.
std::unique_ptr<PackedWeight> pack(const StoredMatrix& matrix, WeightLayout layout,
                                   HugeArena& arena, ThreadPool& pool);

/// The values of one row as float32, those the file's type defines where Weight::exact holds.
void unpack_row(const PackedWeight& weight, int row, std::span<float> out);

}  // namespace talon::cpu
