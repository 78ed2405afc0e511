#include "backend/cpu/tile_writer.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"

namespace talon::cpu {
namespace {

int groups_per_unit(const TileShape& shape) { return shape.unit_inputs / shape.group; }

std::size_t scale_bytes(const TileShape& shape) {
  const std::size_t parts = shape.minimum ? 2 : 1;
  if (!shape.super) return 64 * parts;
  return 64 + parts * static_cast<std::size_t>(kLanes * groups_per_unit(shape));
}

std::size_t group_code_bytes(const TileShape& shape) {
  return static_cast<std::size_t>(kInputGroup * kLanes * shape.bits / 8);
}

std::uint32_t read_word(const std::uint8_t* p) {
  std::uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

void write_codes(const TileShape& shape, std::byte* group, int lane, const std::uint8_t* code) {
  std::byte* place = group + 4 * lane;
  if (shape.bits == 4) {
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t four = read_word(code + 4 * j) | read_word(code + 4 * j + 16) << 4;
      std::memcpy(place + 64 * j, &four, 4);
    }
  } else {
    for (int j = 0; j < 8; ++j) std::memcpy(place + 64 * j, code + 4 * j, 4);
  }
}

void read_codes(const TileShape& shape, const std::byte* group, int lane, std::uint8_t* code) {
  for (int j = 0; j < (shape.bits == 4 ? 4 : 8); ++j) {
    for (int i = 0; i < 4; ++i) {
      const auto value = static_cast<unsigned>(group[64 * j + 4 * lane + i]);
      code[4 * j + i] = static_cast<std::uint8_t>(shape.bits == 4 ? value & 15U : value);
      if (shape.bits == 4) code[4 * j + i + 16] = static_cast<std::uint8_t>(value >> 4);
    }
  }
}

void write_half(std::byte* lanes, int lane, std::uint16_t half) {
  std::memcpy(lanes + 2 * lane, &half, 2);
}

float read_half(const std::byte* lanes, int lane) {
  std::uint16_t half;
  std::memcpy(&half, lanes + 2 * lane, 2);
  return half_to_float(half);
}

struct Scale {
  float scale;
  float minimum;
};

Scale read_scale(const PackedWeight& weight, const std::byte* unit, int lane, int group) {
  const TileShape& shape = weight.shape();
  if (!shape.super) {
    return {read_half(unit + 32 * group, lane),
            shape.minimum ? read_half(unit + 64 + 32 * group, lane) : 0.0F};
  }
  const auto code = [&](int index) {
    return static_cast<float>(static_cast<std::int8_t>(unit[64 + kLanes * index + lane]));
  };
  const float d = read_half(unit, lane) * weight.pre_scale;
  if (!shape.minimum) return {d * code(group), 0.0F};
  return {d * code(group), read_half(unit + 32, lane) * code(groups_per_unit(shape) + group)};
}

void unpack_floats(const PackedWeight& weight, int row, std::span<float> out) {
  const std::byte* tile = weight.tile(row / kLanes);
  const auto lane = static_cast<std::size_t>(row % kLanes);
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (weight.kind == TileKind::f32) {
      std::memcpy(&out[k], tile + 4 * (kLanes * k + lane), 4);
      continue;
    }
    const std::size_t index =
        weight.kind == TileKind::f16 ? kLanes * k + lane : 2 * (kLanes * (k / 2) + lane) + k % 2;
    std::uint16_t bits;
    std::memcpy(&bits, tile + 2 * index, 2);
    out[k] = weight.kind == TileKind::f16 ? half_to_float(bits) : bf16_to_float(bits);
  }
}

}  // namespace

std::size_t unit_bytes(const TileShape& shape) {
  const auto codes = static_cast<std::size_t>(shape.unit_inputs * kLanes * shape.bits / 8);
  return shape.group == 0 ? codes : codes + scale_bytes(shape);
}

void write_block(const PackedWeight& weight, int row, int block, const DecodedBlock& decoded) {
  const TileShape& shape = weight.shape();
  const int lane = row % kLanes;
  const int block_inputs = shape.super ? 256 : kInputGroup;
  const int blocks = shape.unit_inputs / block_inputs;
  std::byte* unit =
      weight.tile(row / kLanes) + static_cast<std::size_t>(block / blocks) * unit_bytes(shape);
  const int index = block % blocks;
  write_half(unit + 32 * index, lane, decoded.d);
  if (shape.super) {
    const int groups = groups_per_unit(shape);
    if (shape.minimum) write_half(unit + 32, lane, decoded.dmin);
    for (int g = 0; g < groups; ++g) {
      unit[64 + kLanes * g + lane] = static_cast<std::byte>(decoded.scale[g]);
      if (shape.minimum) {
        unit[64 + kLanes * (groups + g) + lane] = static_cast<std::byte>(decoded.minimum[g]);
      }
    }
  } else if (shape.minimum) {
    write_half(unit + 64 + 32 * index, lane, decoded.dmin);
  }
  const int first_group = index * block_inputs / kInputGroup;
  for (int g = 0; g < block_inputs / kInputGroup; ++g) {
    std::byte* group = unit + scale_bytes(shape) +
                       static_cast<std::size_t>(first_group + g) * group_code_bytes(shape);
    write_codes(shape, group, lane, decoded.code + kInputGroup * g);
  }
}

void write_floats(const PackedWeight& weight, int row, int first, std::span<const float> values) {
  std::byte* tile = weight.tile(row / kLanes);
  const auto lane = static_cast<std::size_t>(row % kLanes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = static_cast<std::size_t>(first) + i;
    if (weight.kind == TileKind::f32) {
      std::memcpy(tile + 4 * (kLanes * k + lane), &values[i], 4);
    } else if (weight.kind == TileKind::f16) {
      const std::uint16_t bits = float_to_half(values[i]);
      std::memcpy(tile + 2 * (kLanes * k + lane), &bits, 2);
    } else {
      const std::uint16_t bits = float_to_bf16(values[i]);
      std::memcpy(tile + 2 * (2 * (kLanes * (k / 2) + lane) + k % 2), &bits, 2);
    }
  }
}

void unpack_row(const PackedWeight& weight, int row, std::span<float> out) {
  if (weight.is_float()) return unpack_floats(weight, row, out);
  const TileShape& shape = weight.shape();
  const int lane = row % kLanes;
  const int unit_groups = shape.unit_inputs / kInputGroup;
  const int bias = shape.minimum ? 0 : 128;
  for (std::size_t first = 0; first < out.size(); first += kInputGroup) {
    const int group = static_cast<int>(first) / kInputGroup;
    const int in_unit = group % unit_groups;
    const std::byte* unit = weight.tile(row / kLanes) +
                            static_cast<std::size_t>(group / unit_groups) * unit_bytes(shape);
    std::uint8_t code[kInputGroup];
    read_codes(
        shape,
        unit + scale_bytes(shape) + static_cast<std::size_t>(in_unit) * group_code_bytes(shape),
        lane, code);
    const std::size_t count = std::min<std::size_t>(kInputGroup, out.size() - first);
    Scale scale{};
    for (std::size_t i = 0; i < count; ++i) {
      if (i % static_cast<std::size_t>(shape.group) == 0) {
        const int index = (in_unit * kInputGroup + static_cast<int>(i)) / shape.group;
        scale = read_scale(weight, unit, lane, index);
      }
      const std::uint8_t value = shape.bits == 4 ? weight.table[code[i]] : code[i];
      const float product = scale.scale * static_cast<float>(static_cast<int>(value) - bias);
      out[first + i] = shape.minimum ? product + scale.minimum : product;
    }
  }
}

}  // namespace talon::cpu
