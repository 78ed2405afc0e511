#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "io/checkpoint.h"

namespace talon {

/// The readers of checkpoint.h on bytes already in memory, which must outlive the result: its
/// tensors borrow from them and `files` stays empty. `name` is what messages call them. Throw
/// Error.
Checkpoint parse_gguf(std::span<const std::byte> bytes, const std::filesystem::path& name);
Checkpoint parse_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& name);
Checkpoint parse_torch_bin(std::span<const std::byte> bytes, const std::filesystem::path& name);
Checkpoint parse_llama2c(std::span<const std::byte> bytes, const std::filesystem::path& name);

}  // namespace talon
