#pragma once

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

}  // namespace talon::fuzz
