#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/stop.h"
#include "draft/head/head_file.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon {

class HeadTensors;

// Draft heads in GGUF files: architecture "eagle3" as llama.cpp writes and reads it, and "eagle"
// for the heads of EAGLE-1 and -2 under the same names, which is Talon's own. q and k rows lie in
// pairwise rotary order, d2t holds target ids.

/// The common name (HeadTensors) of a tensor of such a file.
std::optional<std::string> common_name_of_gguf(std::string_view name);

/// The keys of such a file as config.json has them.
Json head_keys_of_gguf(const Checkpoint& checkpoint);
/// Its rotary embedding. Counts the tensors of factors among `tensors` that are known.
RopeConfig gguf_head_rope(const Checkpoint& checkpoint, const HeadTensors& tensors, int context,
                          int head_dim);

/// Writes a head in any layout that Talon reads as a GGUF file. `target`: the model it drafts for,
/// whose tokenizer is copied into the file if it has one, since llama.cpp wants it there. Matrices
/// are stored as asked for, but where rows are no whole blocks of q8_0 or q4_1 as f16. Throws Error
/// for parts of a head that the format does not have, naming them, if the head does not fit the
/// target, and for HeadOutput::of_target, of reduced vocabularies alone and not for llama.cpp, if
/// it has other rows than the target. False if `stop`, which may be null, was requested meanwhile:
/// then nothing is left behind.
bool write_gguf_head(const Checkpoint& head, const Checkpoint& target, HeadStorage storage,
                     const std::filesystem::path& file, HeadOutput output = HeadOutput::in_file,
                     const StopFlag* stop = nullptr);

}  // namespace talon
