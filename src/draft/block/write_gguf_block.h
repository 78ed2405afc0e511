#pragma once

#include <filesystem>

#include "core/stop.h"
#include "draft/head/head_file.h"
#include "io/checkpoint.h"

namespace talon {

/// Writes a DFlash or DSpark head in any layout that Talon reads as a GGUF file of the architecture
/// "dflash", as llama.cpp reads it. `target`: the model it drafts for, whose tokenizer is copied
/// into the file if it is a GGUF file, since llama.cpp wants it there. Matrices are stored as asked
/// for, but where rows are no whole blocks of q8_0 or q4_1 as f16; the confidence as f32.
/// HeadOutput::of_target leaves the output matrix and the embedding to the target, which llama.cpp
/// does, too. Throws Error for parts of a head that the architecture does not have, naming them, if
/// the head does not fit the target, and for tables that are left out but are not the target's.
/// False if `stop`, which may be null, was requested meanwhile: then nothing is left behind.
bool write_gguf_block(const Checkpoint& head, const Checkpoint& target, HeadStorage storage,
                      const std::filesystem::path& file, HeadOutput output = HeadOutput::in_file,
                      const StopFlag* stop = nullptr);

}  // namespace talon
