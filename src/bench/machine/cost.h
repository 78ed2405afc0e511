#pragma once

#include <functional>
#include <vector>

#include "backend/wrap/tracing.h"
#include "core/stop.h"
#include "model/cache/kv_cache.h"
#include "model/target.h"
#include "trace/statistics.h"

namespace talon {

struct CostSettings {
  std::vector<int> rows = {1, 2, 4, 8, 16, 32, 64};
  std::vector<int> contexts = {16, 512, 2000};  // committed positions that every row attends to
  // Of the measured rows; those of one after another are a prefill with `last`.
  SequenceRows::Logits logits = SequenceRows::Logits::all;
  int repeats = 7;  // per row count, interleaved so that a slow spell of the machine hits all
};

/// Where the time of a forward goes.
struct ForwardSplit {
  double attention_ms = 0;
  double projections_ms = 0;  // the matrices of the layers, with the norms and gates they apply
  double head_ms = 0;         // the output matrix
  double rest_ms = 0;         // embedding, final norm, copies, and what lies between operations
};

/// What one forward of the target costs.
struct ForwardCost {
  int context = 0;
  int rows = 0;
  Spread ms;
  ForwardSplit split;  // medians, of forwards of their own: being watched costs a little
};

/// What a forward of n rows moves and computes at least.
struct ForwardWork {
  double bytes = 0;         // weights once and the keys and values of the context once
  double integer_macs = 0;  // of the matrix products; attention left out
  double bf16_macs = 0;     // those with bf16 weights
  double float_macs = 0;    // those with other weights of 16 bits and more
};
/// `logit_rows`: of the rows, those whose logits are computed.
ForwardWork forward_work(const Model& model, const KvShape& cache, int rows, int logit_rows,
                         int context);

/// One model and cache, as it runs and watched. Borrowed. `trace` is the backend of `traced`.
struct CostTargets {
  Target& plain;
  Target& traced;
  TracingBackend& trace;
};

/// Times forwards of rows after contexts of arbitrary tokens.
/// Rows that do not fit the model's positions after a context are left out. `between` is called
/// once per repeat, for a measurement that should see the same machine. When `stop` is requested no
/// repeat but the very first begins, and contexts that had none are left out. Throws Error if the
/// cache has no room. REQUIRES: rows and contexts ascending, rows at most max_rows() of both
/// targets.
std::vector<ForwardCost> measure_forward_cost(const CostTargets& targets,
                                              const CostSettings& settings,
                                              const std::function<void()>& between,
                                              const StopFlag& stop);

}  // namespace talon
