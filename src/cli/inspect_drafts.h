#pragma once

#include <string>

#include "cli/options/model_options.h"
#include "io/checkpoint.h"
#include "io/json.h"

namespace talon {

/// What would draft for a model: {"fingerprint", "auto", "heads": {kind: path}}; the path of its
/// own prediction layer is the model's.
Json inspect_drafts(const Checkpoint& model, const ModelOptions& options);

/// What answering takes: {"cache_type", "cache_positions", "cache_bytes"} of one text of the whole
/// context.
Json inspect_cache(const Checkpoint& model, const ModelOptions& options);

/// Whether a head drafts for a model: {"target", "fits", "problem", "paired"}; paired: `auto` takes
/// it there.
Json inspect_fit(const Checkpoint& head, const ModelOptions& target);

}  // namespace talon
