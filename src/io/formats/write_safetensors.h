#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/storage_type.h"

namespace talon {

struct TensorToWrite {
  std::string name;
  StorageType type = StorageType::f32;  // a plain one
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // borrowed for the call
};

/// Writes a safetensors file that appears under its name only when it is whole (AtomicFile).
/// metadata: the header's `__metadata__`. Throws Error with the path and the system's reason.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace talon
