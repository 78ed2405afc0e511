#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/image/network/codebook.h"
#include "train/image/network/vq_model.h"

namespace talon {

/// Its weights, in the folder of a tokenizer and beside what was made with it.
constexpr const char* kTokenizerFile = "vq.safetensors";

/// A tokenizer that train_tokenizer() wrote, to make codes and pictures with.
class StoredTokenizer {
 public:
  /// Throws Error naming the file and what is wrong with it.
  StoredTokenizer(const std::filesystem::path& folder, torch::ScalarType low);

  const VqShape& shape() const { return shape_; }
  int side() const { return side_; }  // of the pictures that it was trained on
  int grid() const { return side_ / shape_.cell(); }
  const std::string& sha256() const { return sha256_; }
  /// The codes of pictures [batch, 3, side, side]: [batch, cells].
  torch::Tensor codes_of(const torch::Tensor& pictures) const;
  /// The pictures of codes [batch, cells], from -1 to 1.
  torch::Tensor pictures_of(const torch::Tensor& codes) const;

 private:
  VqShape shape_;
  int side_ = 0;
  std::string sha256_;
  std::optional<ParameterStore> parameters_;
  std::optional<VqModel> model_;
  std::optional<Codebook> codebook_;
};

}  // namespace talon
