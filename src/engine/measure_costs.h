#pragma once

#include <filesystem>
#include <string>

#include "draft/drafter.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "tree/cost_profile.h"

namespace talon {

/// Times checks of a few row counts at two contexts, and passes of the drafter's head, on a cache
/// of its own. Of repeated measurements the least counts: noise only adds. budget_ms: about how
/// long it takes; a large model gets fewer measurements, and at least one of each. `drafter` is
/// none's or any other's; its sequences are not touched. Throws what backend and drafter throw.
CostProfile measure_costs(const Model& model, KvType cache_type, Drafter& drafter,
                          double budget_ms = 300);

/// Where costs are kept between runs.
struct CostCache {
  std::filesystem::path folder;  // empty: not kept
  std::string key;               // machine, model, threads, kernels: what the costs depend on
};
/// What the folder knows of this drafter; else measures it and, if that is possible, keeps it.
CostProfile obtain_costs(const Model& model, KvType cache_type, Drafter& drafter,
                         const std::string& drafter_text, const CostCache& cache);

}  // namespace talon
