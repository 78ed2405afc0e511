#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "image/vq_decoder.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace talon {

/// What a picture is asked by: the tokens of its prompt and those of its guide, and what the
/// prompt's rows are instead of the embeddings of its tokens, if anything.
struct PicturePrompt {
  std::vector<TokenId> own, guide;
  std::shared_ptr<const std::vector<float>> vectors;
};
/// Throw UsageError for a model that writes text, for a class or words that it does not know, and
/// for a prompt of another kind than the model's.
PicturePrompt class_prompt(const Model& model, int number);
/// Words of a list, or a text in the form of the model's family. tokenizer: the model's; null: it
/// has none. Throws Error for one that lacks what the form needs.
PicturePrompt text_prompt(const Model& model, const Tokenizer* tokenizer, std::string_view text);
/// Of the features of a caption: safetensors with "features" [rows, width]. Throws Error naming the
/// file and what is wrong with it.
PicturePrompt caption_prompt(const Model& model, const std::filesystem::path& file);

/// Fills in what of a request is about pictures: the prompt, its guide, how long the answer is and
/// what it must look like.
void ask_for(const Model& model, const PicturePrompt& prompt, float guidance, Request& request);

/// The codes of the cells of an answer, or of its beginning.
std::vector<TokenId> codes_of(const ImagePlan& plan, std::span<const TokenId> answer);

/// The decoder of the model's codes. file: of the tokenizer; empty: vq.safetensors beside the
/// model, or for Janus the model's own file. Throws Error naming what is missing or does not fit.
/// REQUIRES: a model that draws.
VqDecoder open_picture_decoder(const Model& model, const std::filesystem::path& file = {});

}  // namespace talon
