#pragma once

#include <cstddef>
#include <memory>

#include "draft/drafter.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/gemma4_assistant/assistant_weights.h"

namespace talon {

/// Drafts with Gemma 4's assistant (docs/methods.md 2.5): trees as an EAGLE head grows them, by a
/// network that keeps nothing of a text but the target's newest feature. Its rows see the target's
/// keys and values of the text before the root, and not each other; all stand at the root's place.
/// options.cache_positions: no text is longer; 0: than the target's context. assistant: may be that
/// of several drafters.
std::unique_ptr<Drafter> make_gemma4_assistant_drafter(
    std::shared_ptr<const Gemma4AssistantWeights> assistant, const EagleOptions& options);

}  // namespace talon
