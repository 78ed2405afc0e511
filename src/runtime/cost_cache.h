#pragma once

#include <filesystem>

#include "engine/measure_costs.h"
#include "runtime/loaded_model.h"

namespace talon {

/// Measured costs of this model on this machine, kept in `folder` (empty: nowhere). The key names
/// machine, program, model, threads and kernels.
CostCache cost_cache(const LoadedModel& loaded, KvType cache_type, std::filesystem::path folder);

}  // namespace talon
