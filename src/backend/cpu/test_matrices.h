#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_features.h"
#include "core/half.h"

// Names of parameters in the lists and messages of tests.
namespace talon {
inline void PrintTo(CpuKernels kernels, std::ostream* out) { *out << cpu::name_of(kernels); }
inline void PrintTo(StorageType type, std::ostream* out) { *out << name_of(type); }
}  // namespace talon

namespace talon::cpu {

/// A stored matrix of random values and the memory it borrows.
struct TestMatrix {
  std::vector<std::byte> bytes;
  StoredMatrix stored;
};

inline constexpr StorageType kBlockTypes[] = {
    StorageType::q8_0,    StorageType::q4_0,  StorageType::q4_1,    StorageType::q5_0,
    StorageType::q5_1,    StorageType::q2_k,  StorageType::q3_k,    StorageType::q4_k,
    StorageType::q5_k,    StorageType::q6_k,  StorageType::iq4_nl,  StorageType::iq4_xs,
    StorageType::iq2_xxs, StorageType::mxfp4, StorageType::iq1_s,   StorageType::iq1_m,
    StorageType::iq2_xs,  StorageType::iq2_s, StorageType::iq3_xxs, StorageType::iq3_s,
    StorageType::tq1_0,   StorageType::tq2_0};
inline constexpr StorageType kFloatTypes[] = {StorageType::f32, StorageType::f16,
                                              StorageType::bf16};

/// Where a block type keeps its f16 values.
inline std::vector<std::size_t> half_fields(StorageType type) {
  switch (type) {
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
    case StorageType::tq1_0:
      return {52};
    case StorageType::tq2_0:
      return {64};
    default:
      return {0};
  }
}

inline TestMatrix random_matrix(StorageType type, int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  const BlockShape shape = block_shape(type);
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  TestMatrix matrix;
  matrix.bytes.resize(count / shape.elements * shape.bytes);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  const auto put = [&](std::size_t offset, const auto& value) {
    std::memcpy(matrix.bytes.data() + offset, &value, sizeof(value));
  };
  if (shape.elements == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      const float value = normal(random);
      if (type == StorageType::f32) put(4 * i, value);
      if (type == StorageType::f16) put(2 * i, float_to_half(value));
      if (type == StorageType::bf16) put(2 * i, float_to_bf16(value));
    }
  } else {
    for (auto& byte : matrix.bytes) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < matrix.bytes.size(); at += shape.bytes) {
      if (type == StorageType::mxfp4) {
        put(at, static_cast<std::uint8_t>(115 + random() % 6));  // a power of two
        continue;
      }
      if (type == StorageType::nvfp4) {
        for (std::size_t i = 0; i < 4; ++i) put(at + i, static_cast<std::uint8_t>(random() % 24));
        continue;
      }
      if (type == StorageType::iq1_m) {  // its scale lies in the top nibbles of four words
        for (std::size_t i = 0; i < 4; ++i) {
          const auto low = static_cast<std::uint16_t>(random() & 0x0FFFU);
          constexpr std::uint16_t kTop[] = {0x3000, 0x5000, 0x1000, 0x2000};
          put(at + 48 + 2 * i, static_cast<std::uint16_t>(low | kTop[i]));
        }
        continue;
      }
      for (const std::size_t field : half_fields(type)) {
        put(at + field, float_to_half(0.01F * normal(random)));
      }
    }
  }
  matrix.stored = {std::string(name_of(type)), type, rows, cols, matrix.bytes};
  return matrix;
}

/// Gives every block of `to` the f16 values, or the power of two, that `from` has.
inline void copy_scales(const TestMatrix& from, TestMatrix& to) {
  const StorageType type = from.stored.type;
  const auto copy = [&](std::size_t at, std::size_t bytes) {
    std::memcpy(to.bytes.data() + at, from.bytes.data() + at, bytes);
  };
  for (std::size_t at = 0; at < from.bytes.size(); at += block_shape(type).bytes) {
    if (type == StorageType::iq1_m) copy(at + 48, 8);
    for (const std::size_t field : half_fields(type)) copy(at + field, 2);
  }
}

inline std::vector<float> values_of(const TestMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.stored.rows) *
                            static_cast<std::size_t>(matrix.stored.cols));
  dequantize(matrix.stored.type, matrix.bytes, values);
  return values;
}

/// Rows whose magnitudes differ from group to group, as activations do.
inline std::vector<float> random_rows(int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = normal(random) * (i / 32 % 5 == 0 ? 4.0F : 0.7F);
  }
  return values;
}

}  // namespace talon::cpu
