#pragma once

#include <string>
#include <vector>

#include "cli/options/session.h"
#include "cli/train/train_flags.h"

namespace talon {

/// First turns of the questions, with the target's chat template; without those that leave no room
/// for the longest answer.
std::vector<std::vector<TokenId>> question_prompts(const Session& session,
                                                   const QuestionOptions& options);

}  // namespace talon
