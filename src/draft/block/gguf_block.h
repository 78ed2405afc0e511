#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/checkpoint.h"
#include "io/json.h"

namespace talon {

// Block drafters in GGUF files: architecture "dflash", as llama.cpp's converter writes it.

/// The official name of a tensor of such a file; others keep theirs.
std::optional<std::string> block_name_of_gguf(std::string_view name);

/// The keys of such a file as the official config.json has them. Throws Error for DeepSeek-V4's own
/// kind.
Json block_keys_of_gguf(const Checkpoint& checkpoint);

}  // namespace talon
