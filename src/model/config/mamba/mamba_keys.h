#pragma once

#include <vector>

#include "model/config/config_readers.h"

// What readers of families with Mamba-2 share.
namespace talon {

/// `time_step_limit`: two numbers. transformers writes an infinite one as an object.
StepLimits read_step_limits(const ConfigKeys& keys);
/// Sizes by keys that begin with "mamba_", and what else these say.
RecurrentPlan read_mamba(const ConfigKeys& keys, const ModelConfig& config);
/// Tensors of the first of the layers that keep a state tell what keys do not.
RecurrentPlan read_gguf_mamba(const ConfigKeys& keys, const Checkpoint& checkpoint,
                              const ModelConfig& config, const std::vector<bool>& keeps);

}  // namespace talon
