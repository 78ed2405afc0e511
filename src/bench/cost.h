#pragma once

#include <functional>
#include <vector>

#include "bench/statistics.h"
#include "model/kv_cache.h"
#include "model/target.h"

namespace talon {

struct CostSettings {
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64};
  int context = 256;  // committed positions that every row attends to
  int repeats = 7;    // per row count, interleaved so that a slow spell of the machine hits all
};

/// What one forward of the target costs.
struct ForwardCost {
  int rows = 0;
  Spread ms;
};

/// What a forward of n rows moves and computes at least.
struct ForwardWork {
  double bytes = 0;  // weights once and the keys and values of the context once
  double macs = 0;   // of the matrix products; attention left out
};
ForwardWork forward_work(const Model& model, const KvShape& cache, int rows, int context);

/// Times forwards that ask for the logits of all their rows, at `context` positions of arbitrary
/// tokens. `between` is called once per repeat, for a measurement that should see the same machine.
/// Throws Error if the context does not fit. REQUIRES: rows ascending, each at most
/// target.max_rows().
std::vector<ForwardCost> measure_forward_cost(Target& target, const CostSettings& settings,
                                              const std::function<void()>& between);

}  // namespace talon
