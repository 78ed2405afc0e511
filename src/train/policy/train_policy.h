#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "io/json.h"
#include "train/policy/draft_examples.h"
#include "train/policy/fit.h"
#include "train/policy/policy_options.h"

namespace talon {

/// What a round costs, in milliseconds or any other unit.
struct RoundCosts {
  std::function<double(int levels, int nodes)> round_ms;  // so many passes, then a check
  double pass_ms = 0;                                     // of one level
};
/// A check of any size is 1, a pass `pass` of it.
RoundCosts flat_costs(double pass);

struct PolicyTrainResult {
  std::filesystem::path file;  // empty: stopped before there was anything to write
  Figures figures;             // of the held-out texts
  bool stopped = false;
  Json facts;
};

/// Trains the length predictor of the policy `ada_eagle`, or the network of `radar`, and writes
/// options.out/ada_eagle.safetensors (radar.safetensors) with README.md beside it:
/// docs/training.md. `costs` count for radar alone. `origin`: where the examples come from, for the
/// card. Throws UsageError for options that cannot be meant, Error for too few examples, a loss
/// that is not finite and files that cannot be written.
PolicyTrainResult train_policy(const PolicyTrainOptions& options,
                               std::vector<DraftExample> examples, const RoundCosts& costs,
                               const Json& origin, const FitHooks& hooks);

}  // namespace talon
