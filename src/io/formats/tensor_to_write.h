#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/storage_type.h"

namespace talon {

struct TensorToWrite {
  std::string name;
  StorageType type = StorageType::f32;  // one that the format has
  std::vector<std::int64_t> shape;      // outermost first
  std::span<const std::byte> bytes;     // borrowed for the call
};

}  // namespace talon
