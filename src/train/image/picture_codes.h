#pragma once

#include <torch/types.h>

#include <filesystem>

#include "train/image/image_options.h"
#include "train/image/pictures.h"
#include "train/image/training_run.h"

namespace talon {

/// Encodes every picture of the data set in several views (moved, mirrored; the first as it is) and
/// writes OUT/codes.json with the settings, OUT/codes-VIEW.safetensors, each when it is whole, and
/// the tokenizer (vq.safetensors) at last. Files that are there are kept: a run that was stopped is
/// gone on with. Throws Error naming the setting, before anything is written, if a file is of
/// another one. True if all are there.
bool make_codes(const CodesOptions& options, const TrainingHooks& hooks);

/// What make_codes() wrote.
struct PictureCodes {
  torch::Tensor codes;  // int32 [views, pictures, cells]
  int code_count = 0, grid = 0;
  Json facts;  // codes.json
};
/// Throws Error if a file is missing, made of other pictures or of other settings than codes.json.
PictureCodes read_codes(const std::filesystem::path& folder, const PictureSet& pictures);

}  // namespace talon
