#pragma once

#include <filesystem>

#include "train/head/train_head.h"

namespace talon {

/// Writes README.md into the folder of a head: what it was trained on, for how long, what it
/// measured, and how that grew (`evaluations`, a curve file). Throws Error if it cannot be written.
void write_model_card(const HeadTrainResult& result, const std::filesystem::path& evaluations);

}  // namespace talon
