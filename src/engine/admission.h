#pragma once

#include <optional>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace talon {

/// Why the engine will not take the request; nothing if it will.
std::optional<Refusal> refuse(const Request& request, Target& target, const EngineOptions& options);

/// Opens the sequence in the cache, with room for its whole prompt and longest answer, so that no
/// other sequence can shorten it; sets its limit. Of the prompt, at most the first `most_reused`
/// tokens are taken from the cache. False if that room is not free now.
bool claim_room(Sequence& sequence, Target& target, int most_reused);

}  // namespace talon
