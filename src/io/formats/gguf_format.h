#pragma once

#include <cstdint>

namespace talon {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
/// Of tensors, in bytes, where no key says otherwise.
inline constexpr std::uint32_t kGgufAlignment = 32;

/// Types of values of keys, by their numbers in the file.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

}  // namespace talon
