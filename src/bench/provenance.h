#pragma once

#include "io/json.h"
#include "runtime/machine.h"

namespace talon {

Json to_json(const Machine& machine);

/// What the last line of every bench command carries beside its own results: {"commit", "date"
/// (UTC), "machine", "settings"}.
Json provenance(Json settings);

}  // namespace talon
