#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/image/network/features_network.h"

namespace talon {

/// A network that train_features() wrote.
class StoredFeatures {
 public:
  /// Throws Error naming the file and what is wrong with it.
  explicit StoredFeatures(const std::filesystem::path& folder);

  int side() const { return side_; }  // of the pictures that it was trained on
  /// What its answers are over, in their order.
  const std::vector<std::string>& styles() const { return styles_; }
  const std::vector<std::string>& categories() const { return categories_; }
  const std::vector<std::string>& words() const { return words_; }
  const std::string& sha256() const { return sha256_; }
  /// pictures [count, 3, side, side], some at a time; float32.
  FeaturesNetwork::Answers of(const torch::Tensor& pictures) const;

 private:
  int side_ = 0;
  std::vector<std::string> styles_, categories_, words_;
  std::string sha256_;
  std::unique_ptr<ParameterStore> parameters_;
};

}  // namespace talon
