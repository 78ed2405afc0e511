#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "io/json.h"
#include "io/test_files.h"
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

/// Of a folder with this config.json.
inline ModelConfig read_folder(const Json& json, std::vector<StoredTensor> tensors = {}) {
  Checkpoint folder;
  folder.format = CheckpointFormat::hugging_face;
  folder.path = "some/model";
  folder.metadata = json;
  folder.tensors = std::move(tensors);
  return read_model_config(folder);
}

/// That such a folder is refused with a message in which `part` stands.
inline void expect_refusal(const Json& json, std::string_view part) {
  const std::string message = message_of([&] { read_folder(json); });
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

}  // namespace talon::test
