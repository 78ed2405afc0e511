#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/zstd.h"

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

template <typename T>
std::vector<T> numbers(const Checkpoint& file, const std::string& name) {
  const StoredTensor& tensor = file.require(name);
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

}  // namespace talon::test
