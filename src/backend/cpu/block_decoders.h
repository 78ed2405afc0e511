#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/tile_writer.h"
#include "io/storage_type.h"

namespace talon::cpu {

/// How the blocks of one file type become tiles without changing a value.
struct BlockRecipe {
  StorageType type;
  TileKind kind;
  const char* layout;  // Weight::layout
  void (*decode)(const std::uint8_t* block, DecodedBlock& out);
  std::array<std::uint8_t, 16> table;  // of nibble kinds
  float pre_scale = 1.0F;
};

/// The recipe for a quantised type; null for others.
const BlockRecipe* recipe_for(StorageType type);

/// Whether the scales of these MXFP4 blocks are all binary16 numbers.
bool fits_mxfp4_tiles(std::span<const std::byte> blocks);

/// Codes i as they are, for nibble kinds with a minimum.
std::array<std::uint8_t, 16> plain_table();

}  // namespace talon::cpu
