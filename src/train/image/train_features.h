#pragma once

#include "train/image/training_run.h"

namespace talon {

/// Trains a small convolutional network that tells style, category and words of a picture, whose
/// inner features compare sets of pictures. Writes OUT/features.safetensors and OUT/features.json.
TrainingResult train_features(const FeaturesOptions& options, const TrainingHooks& hooks);

}  // namespace talon
