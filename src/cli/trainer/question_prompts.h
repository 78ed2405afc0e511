#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace talon {

/// First turns of the questions in `file`, at most `limit` (0: all), evenly spread over it, with
/// the target's chat template; without those that leave no room for `max_new` tokens.
std::vector<std::vector<TokenId>> question_prompts(const Session& session, const std::string& file,
                                                   int limit, int max_new);

}  // namespace talon
