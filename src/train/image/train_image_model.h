#pragma once

#include "train/image/network/image_model.h"
#include "train/image/picture_codes.h"
#include "train/image/training_run.h"

namespace talon {

/// Trains an autoregressive model on codes of pictures and writes the folder OUT/model:
/// config.json, model.safetensors, words.json and the tokenizer's vq.safetensors. A prompt is the
/// words of a picture's name, the null word in the places that are left, and its style last.
TrainingResult train_image_model(const ImageModelOptions& options, const TrainingHooks& hooks);

/// The rows of the prompt table for a picture: words 0.., then styles, then the null word.
std::vector<std::int64_t> prompt_of(const PictureFacts& facts, const PictureSet& pictures,
                                    int prefix);

}  // namespace talon
