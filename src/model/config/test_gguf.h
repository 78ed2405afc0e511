#pragma once

#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon::test {

/// Of a GGUF file with these keys of an architecture, without its name before them, for texts of
/// 300 tokens. `vectors`: names of further tensors.
inline ModelConfig read_gguf(const Json& keys, const std::string& architecture,
                             const std::vector<std::string>& vectors = {}) {
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.path = "some/model";
  file.metadata = {{"general.architecture", architecture}};
  for (const auto& [key, value] : keys.items()) file.metadata[architecture + "." + key] = value;
  file.tensors.push_back({"token_embd.weight", StorageType::f32, {300, 64}, {}});
  for (const std::string& name : vectors) {
    file.tensors.push_back({name, StorageType::f32, {64}, {}});
  }
  return read_model_config(file);
}

}  // namespace talon::test
