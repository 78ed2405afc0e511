#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/codec/zstd.h"
#include "io/formats/write_safetensors.h"
#include "io/json.h"

namespace talon::test {

/// What tests/data/golden/images/record.py recorded.
inline const std::filesystem::path kPictureGoldens =
    std::filesystem::path(TALON_TEST_DATA) / "golden/images";

/// Unpacks the recorded file `name` below a folder that the calling program has for itself, with
/// the config.json beside it. Returns where the file lies.
inline std::filesystem::path unpack_picture(const std::string& program, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path to = fs::path(testing::TempDir()) / program / name;
  fs::create_directories(to.parent_path());
  std::ofstream(to, std::ios::binary) << read_zstd(kPictureGoldens / (name + ".zst"));
  const fs::path config = (kPictureGoldens / name).parent_path() / "config.json";
  if (fs::exists(config)) {
    fs::copy_file(config, to.parent_path() / "config.json", fs::copy_options::overwrite_existing);
  }
  return to;
}

/// The same of the recorded model `name`, with its first `layers` layers alone. Returns its folder.
/// REQUIRES: the model has at most one layer more.
inline std::filesystem::path unpack_first_layers(const std::string& program,
                                                 const std::string& name, int layers) {
  const std::string left_out = "layers." + std::to_string(layers) + ".";
  const std::filesystem::path folder =
      unpack_picture(program + "_" + std::to_string(layers), name + "/model.safetensors")
          .parent_path();
  std::ifstream file(kPictureGoldens / name / "config.json");
  Json config = Json::parse(file);
  config["num_hidden_layers"] = layers;
  std::ofstream(folder / "config.json") << config;
  const Checkpoint whole = open_checkpoint(folder / "model.safetensors");
  std::vector<TensorToWrite> kept;
  for (const StoredTensor& tensor : whole.tensors) {
    if (tensor.name.find(left_out) != std::string::npos) continue;
    kept.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  write_safetensors(folder / "model.safetensors", kept);
  return folder;
}

/// Leaves of the LayerNorms of heads in a file of Chameleon's family the first `parts`, each of
/// which is then that of as many heads as the others, as in Lumina-mGPT.
inline void share_head_norms(const std::filesystem::path& file, int parts) {
  const Checkpoint model = open_checkpoint(file);
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
    const bool of_heads =
        tensor.name.ends_with("_norm.weight") || tensor.name.ends_with("_norm.bias");
    if (!of_heads) continue;
    const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
    tensors.back().shape[0] = parts;
    tensors.back().bytes = tensor.bytes.first(row_bytes * static_cast<std::size_t>(parts));
  }
  write_safetensors(file, tensors);
}

template <typename T>
std::vector<T> numbers(const Checkpoint& file, const std::string& name) {
  const StoredTensor& tensor = file.require(name);
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

}  // namespace talon::test
