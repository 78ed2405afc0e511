#pragma once

#include <string>

#include "backend/backend.h"
#include "cli/model_options.h"
#include "io/checkpoint.h"
#include "io/json.h"

namespace talon {

/// What a model's or head's files hold: {"path", "format", "config", "tensors", "kept",
/// "tokenizer"}; "config" and "tokenizer" are {"problem": reason} where the files do not describe
/// one. Loads every tensor on `backend`, one at a time, to say how it is kept in memory.
Json inspect_checkpoint(const Checkpoint& checkpoint, Backend& backend, WeightLayout layout);

/// The same for people.
std::string inspect_text(const Json& report);

/// {"machine", "kernels", "bandwidth_gb_s", "multiply_gmac_s", ...} of this machine and what the
/// options choose on it.
Json inspect_machine(const ModelOptions& options);
std::string machine_text(const Json& report);

}  // namespace talon
