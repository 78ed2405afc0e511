#pragma once

#include <filesystem>
#include <string>

#include "draft/draft_job.h"
#include "engine/measure_costs.h"
#include "runtime/loaded_model.h"

namespace talon {

/// Measured costs of this model on this machine, kept in `folder` (empty: nowhere). The key names
/// machine, program, model, threads and kernels.
CostCache cost_cache(const LoadedModel& loaded, KvType cache_type, std::filesystem::path folder);

/// What the costs of a drafter are kept as: its text, and where its weights lie and how large they
/// are, which may change under the same text.
std::string costs_name(const std::string& drafter, const DrafterTraits& traits);

}  // namespace talon
