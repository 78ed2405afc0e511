#pragma once

#include "cli/options/model_options.h"
#include "cli/options/session.h"
#include "engine/measure_costs.h"

namespace talon {

/// Where measured costs of this model on this machine are kept: $XDG_CACHE_HOME/talon/costs, else
/// ~/.cache/talon/costs; nowhere if neither is known. The key names machine, program, model,
/// threads and kernels.
CostCache cost_cache(const Session& session, const ModelOptions& options);

}  // namespace talon
