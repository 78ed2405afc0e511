#pragma once

#include <optional>
#include <string>

#include "engine_situation.h"
#include "fuzz_models.h"

namespace talon::fuzz {

/// Runs one situation of the model: requests come, are cancelled or late at any time, and methods
/// are added. Nothing, or what is wrong. Of a rule whose texts are plain decoding's, answers are
/// compared with what was expected, log-probabilities and texts to the bit; of others, they must
/// end well. A listener must hear all of it, and the cache must be empty at the end.
std::optional<std::string> run_trial(FuzzModel& model, const EngineSituation& situation,
                                     Chooser& choose);

}  // namespace talon::fuzz
