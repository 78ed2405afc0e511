#pragma once

#include <string>
#include <vector>

#include "cli/train/train_flags.h"
#include "draw/picture_prompt.h"
#include "runtime/loaded_model.h"

namespace talon {

/// First turns of the questions, with the target's chat template; without those that leave no room
/// for the longest answer. Throws Error if none is left.
std::vector<std::vector<TokenId>> question_prompts(const LoadedModel& loaded,
                                                   const QuestionOptions& options);

/// Of lines with "prompt", some of them evenly spread, for a target that draws.
std::vector<PicturePrompt> picture_prompts(const Model& target, const QuestionOptions& options);

}  // namespace talon
