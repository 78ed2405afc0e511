#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <string>

#include "train/image/image_options.h"

namespace talon {

/// What makes codes of pictures of one size: a tokenizer that train_tokenizer() wrote, or a
/// published one.
class CodeMaker {
 public:
  virtual ~CodeMaker() = default;
  virtual int codes() const = 0;  // of the codebook
  virtual int grid() const = 0;   // cells along a side
  virtual const std::string& sha256() const = 0;
  /// Of pictures [batch, 3, side, side], from -1 to 1: int32 [batch, cells].
  virtual torch::Tensor codes_of(const torch::Tensor& pictures) const = 0;
  /// Writes the tokenizer as safetensors, aside and renamed.
  virtual void write(const std::filesystem::path& file) const = 0;
};

/// options.tokenizer: a folder of train_tokenizer(), or a file in the layout of LlamaGen or
/// Chameleon (docs/formats.md). side: of the pictures, in pixels. Throws Error naming what is wrong
/// with it or does not fit, UsageError for a precision that is not there.
std::unique_ptr<CodeMaker> open_code_maker(const CodesOptions& options, int side);

}  // namespace talon
