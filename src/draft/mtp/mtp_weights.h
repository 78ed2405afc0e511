#pragma once

#include "draft/head/head_weights.h"

namespace talon {

/// The prediction layer that a model was trained with (DeepSeek-V3, GLM-4.5, MiMo, Qwen3-Next,
/// Qwen3.5; docs/methods.md 2.5), as a head: norms of embedding and feature, fc, one layer of the
/// target's own kind, a norm. Embedding and output matrix are the target's. `file`: the target's
/// own file or folder, or one that holds the layer alone. Throws Error naming a tensor that is
/// missing or does not fit the target.
HeadWeights load_mtp(const Checkpoint& file, const Model& target, WeightLayout layout);

}  // namespace talon
