#pragma once

#include <cstdint>
#include <optional>

#include "io/storage_type.h"

namespace talon {

/// The type that a GGUF file calls by this number; nothing for one that is not read.
std::optional<StorageType> type_of_ggml(std::uint32_t number);
/// Its number; nothing for a type that GGUF has not.
std::optional<std::uint32_t> ggml_type_of(StorageType type);

}  // namespace talon
