#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/packed_weight.h"

namespace talon::cpu {

/// The bytes of one unit of a tile of this shape.
std::size_t unit_bytes(const TileShape& shape);

/// One row's part of one or more groups, taken apart: what a block of a file holds.
struct DecodedBlock {
  std::uint16_t d =
      0;  // f16: the scale of a direct kind, or what the scales of a super kind multiply
  std::uint16_t dmin = 0;      // f16: for the minimum what d is for the scale; 0: none
  std::int8_t scale[16] = {};  // super kinds, per group
  std::int8_t minimum[16] = {};
  std::uint8_t code[256] = {};  // 32 (direct) or 256 (super) codes as the kind stores them
};

/// Writes the decoded block number `block` of one output into its tile: blocks are 32 inputs in
/// direct kinds, 256 in super kinds.
void write_block(const PackedWeight& weight, int row, int block, const DecodedBlock& decoded);
/// Writes inputs first .. first + values.size() of one output; float kinds only. Rounds to the
/// kind, ties to even.
void write_floats(const PackedWeight& weight, int row, int first, std::span<const float> values);

}  // namespace talon::cpu
