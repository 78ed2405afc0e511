#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace talon {

/// How a tensor's values are stored in a file. The names are GGUF's, in lower case, and the plain
/// types of safetensors.
enum class StorageType {
  f32,
  f16,
  bf16,
  f64,
  i8,
  u8,
  i16,
  i32,
  i64,
  boolean,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  iq2_xxs,
  mxfp4,
  iq1_s,
  iq1_m,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  tq1_0,
  tq2_0,
  nvfp4,
  f8_e4m3,
};

std::string_view name_of(StorageType type);

/// A type stores `elements` values in `bytes` bytes; plain types have one element a block.
struct BlockShape {
  std::size_t elements;
  std::size_t bytes;
};
BlockShape block_shape(StorageType type);

/// The exact values of `bytes` as float32 (f64 and i64 are rounded to nearest), in storage order:
/// what `gguf.quants.dequantize` and llama.cpp's reference dequantisation give, to the bit.
/// REQUIRES: bytes.size() is whole blocks and out.size() the number of elements they hold.
void dequantize(StorageType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace talon
