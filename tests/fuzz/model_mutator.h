#pragma once

#include <filesystem>
#include <string>

#include "engine_situation.h"
#include "io/json.h"

namespace talon::fuzz {

/// The two files of a Hugging Face folder with one safetensors file.
struct ModelFiles {
  std::string config;   // config.json
  std::string weights;  // model.safetensors
};

/// One to three changes of the configuration, the header or the bytes of tensors: odd values, other
/// names and shapes, huge and tiny numbers. Most results are wrong, some still load.
void damage(ModelFiles& files, Chooser& choose);

/// Writes the GGUF file `from`, which is a valid one, to `to` with one to three changes: of keys of
/// the architecture, of tensors' names, shapes and types; or with a few other bytes, mostly before
/// the tensors' data. Throws Error for values that the format does not hold.
void damage_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                 Chooser& choose);

}  // namespace talon::fuzz
