#pragma once

#include "model/load/tensor_loader.h"

namespace talon {

/// load_model() by a loader of the caller's, whatever memory is available. context:
/// LoadOptions::context.
Model load_by(TensorLoader& tensors, Backend& backend, int context);

}  // namespace talon
