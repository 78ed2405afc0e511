#pragma once

#include <torch/types.h>

#include <filesystem>

#include "train/image/image_options.h"
#include "train/image/pictures.h"
#include "train/image/training_run.h"

namespace talon {

/// Encodes every picture of the data set in several views (moved, mirrored; the first as it is) and
/// writes OUT/codes-VIEW.safetensors, each when it is whole, the tokenizer's weights, and
/// OUT/codes.json at last. Files that are there are kept: a run that was stopped is gone on with.
/// True if all are there.
bool make_codes(const CodesOptions& options, const TrainingHooks& hooks);

/// What make_codes() wrote.
struct PictureCodes {
  torch::Tensor codes;  // int32 [views, pictures, cells]
  int code_count = 0, grid = 0;
  Json facts;  // codes.json
};
/// Throws Error if a file is missing or made of other pictures.
PictureCodes read_codes(const std::filesystem::path& folder, const PictureSet& pictures);

}  // namespace talon
