#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/formats/tensor_to_write.h"
#include "io/json.h"

namespace talon {

/// Key-values in the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, Json>>;

/// Writes a GGUF file of version 3 that appears under its name only when it is whole (AtomicFile).
/// Texts, booleans and reals (f32) are written as such, signed integers as i32, unsigned ones as
/// u32, either with 64 bits where it must be; the elements of an array have one type. Throws Error
/// with the path and the system's reason, and naming a key whose value GGUF does not hold.
void write_gguf(const std::filesystem::path& file, const GgufMetadata& metadata,
                std::span<const TensorToWrite> tensors);

}  // namespace talon
