#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "io/formats/tensor_to_write.h"

namespace talon {

/// Writes a safetensors file that appears under its name only when it is whole (AtomicFile).
/// metadata: the header's `__metadata__`. Throws Error with the path and the system's reason.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace talon
