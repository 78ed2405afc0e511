#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "image/vq_decoder.h"
#include "model/model.h"

namespace talon {

/// What a picture is asked by: the tokens of its prompt and those of its guide.
struct PicturePrompt {
  std::vector<TokenId> own, guide;
};
/// Throw UsageError for a model that writes text, for a class or words that it does not know, and
/// for one in place of the other.
PicturePrompt class_prompt(const Model& model, int number);
PicturePrompt words_prompt(const Model& model, std::string_view text);

/// The decoder of the model's codes. file: of the tokenizer; empty: vq.safetensors beside the
/// model. Throws Error naming what is missing or does not fit. REQUIRES: a model that draws.
VqDecoder open_picture_decoder(const Model& model, const std::filesystem::path& file = {});

}  // namespace talon
