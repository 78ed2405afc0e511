#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "io/json.h"

namespace talon {

// Block drafters in GGUF files: architecture "dflash", as llama.cpp's converter writes it, or
// "dflash-draft" and "qwen35-dflash-draft", as forks of it do (docs/formats.md).

/// Talon's own key, below the architecture: layers that slide see all of the block.
constexpr std::string_view kNonCausalSlides = "sliding_window_non_causal";

bool is_gguf_block(const Checkpoint& checkpoint);
/// Of the keys that are of its architecture, "dflash.".
std::string block_prefix_of_gguf(const Checkpoint& checkpoint);

/// The official name of a tensor of such a file; others keep theirs.
std::optional<std::string> block_name_of_gguf(std::string_view name);

/// A tensor's official name and the one in such a file.
struct GgufBlockName {
  std::string official, theirs;
};
/// Those that a head of so many layers may have there, biases of layers and `d2t` aside, in the
/// order of the file.
std::vector<GgufBlockName> block_names_in_gguf(int layers);

/// The keys of such a file as the official config.json has them. Throws Error for DeepSeek-V4's own
/// kind.
Json block_keys_of_gguf(const Checkpoint& checkpoint);

}  // namespace talon
