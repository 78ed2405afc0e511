#pragma once

#include <optional>

#include "engine/engine.h"
#include "engine/request.h"
#include "model/target.h"

namespace talon {

/// Why the engine will not take the request; nothing if it will.
std::optional<Refusal> refuse(const Request& request, Target& target, const EngineOptions& options);

}  // namespace talon
