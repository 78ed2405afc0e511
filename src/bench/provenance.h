#pragma once

#include <string>

#include "io/json.h"
#include "runtime/machine.h"

namespace talon {

Json to_json(const Machine& machine);

/// Now, UTC: "2026-01-31T09:30Z".
std::string date_text();

/// What the last line of every bench command carries beside its own results: {"commit", "date"
/// (UTC), "machine", "settings"}.
Json provenance(Json settings);

}  // namespace talon
