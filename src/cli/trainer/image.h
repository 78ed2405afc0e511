#pragma once

#include "cli/train/train_image.h"

namespace talon {

/// `talon train image` itself. The exit code.
int train_image_command(const TrainImageRequest& request);

/// Threads of a training request.
int threads_of(const TrainImageRequest& request);

}  // namespace talon
