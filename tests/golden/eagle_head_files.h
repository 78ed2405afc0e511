#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/json.h"
#include "io/test_files.h"

namespace talon {

/// The files of a head in memory, to be changed by a test and written into a folder.
struct HeadFiles {
  struct Tensor {
    std::string dtype;  // as safetensors calls it
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  Json config;
  std::map<std::string, Tensor> tensors;

  /// A folder of tests/data/golden/stories260k.
  static HeadFiles read(const std::string& golden_head);

  void rename(const std::string& from, const std::string& to);
  /// Replaces the beginning of every name that starts with `from`.
  void rename_prefix(const std::string& from, const std::string& to);
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           const std::vector<float>& values);
  void write(const test::TemporaryFolder& folder) const;
  std::vector<float> values(const std::string& name) const;
};

/// The heads' target.
Checkpoint golden_target();
/// The embedding of the heads' target, [512, 64], which is its output matrix, too.
std::vector<float> target_embedding();

}  // namespace talon
