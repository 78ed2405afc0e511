#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "io/test_files.h"

namespace talon::fuzz {

/// A valid target, head or tokenizer of pictures that is to be damaged.
struct LoadSource {
  std::string name = {};
  /// A folder with config.json and model.safetensors, a safetensors file alone, or a GGUF file.
  /// Asked for when it is wanted: recorded models are unpacked then.
  std::filesystem::path (*path)(const std::string& name) = nullptr;
  std::string drafter = {};   // that takes it as head; empty: it is a target
  std::string target = {};    // of the head, a model of makers; empty: stories260k
  bool draws_pixels = false;  // a tokenizer of pictures
};

/// What is damaged, and the targets that heads are made for. All files lie below one folder, which
/// goes with this.
class LoadSources {
 public:
  LoadSources();
  const std::vector<LoadSource>& all() const { return all_; }
  /// The whole target of a head.
  test::TestModel& target_of(const LoadSource& source);
  /// For what is written.
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
  std::map<std::string, std::unique_ptr<test::TestModel>> targets_;  // by LoadSource::target
  std::vector<LoadSource> all_;
};

}  // namespace talon::fuzz
