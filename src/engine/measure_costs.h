#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "draft/drafter.h"
#include "model/cache/kv_cache.h"
#include "model/model.h"
#include "tree/cost_profile.h"
#include "tree/machine_costs.h"

namespace talon {

/// The longer of the two contexts that checks are timed at: what longer ones cost is foretold from
/// there. Fewer than 2048 positions where their keys and values would take more than 64 MiB (but
/// 512), or where the model's context ends.
int far_context(const ModelConfig& config, KvType type);

/// Where MachineCosts knows the model's near layers (NearShape) from.
ContextRead context_read(const ModelConfig& config);

/// Times checks of a few row counts at two contexts, and passes of the drafter's head, on a cache
/// of its own. Of a mixture, checks of the same rows that read more experts and fewer, too, which
/// tells what an expert costs. Of repeated measurements the least counts: noise only adds.
/// budget_ms: about how long it takes; a large model gets fewer measurements, and at least two of
/// each. `drafter` is none's or any other's; its sequences are not touched. Throws what backend and
/// drafter throw.
CostProfile measure_costs(const Model& model, KvType cache_type, Drafter& drafter,
                          double budget_ms = 300);

/// Only the passes, over each number of rows; none if the drafter has no passes. Fewer rows run
/// where the drafter allows fewer children of a node, or too few nodes for five levels of them.
std::vector<CostProfile::Level> measure_passes(const Model& model, KvType cache_type,
                                               Drafter& drafter, std::span<const int> rows,
                                               double budget_ms);

/// Where costs are kept between runs.
struct CostCache {
  std::filesystem::path folder;  // empty: not kept
  std::string key;               // machine, model, threads, kernels: what the costs depend on
};
/// What the folder knows of this drafter; else measures it and keeps it, unless that is not
/// possible or the machine was disturbed.
CostProfile obtain_costs(const Model& model, KvType cache_type, Drafter& drafter,
                         const std::string& drafter_text, const CostCache& cache);

}  // namespace talon
