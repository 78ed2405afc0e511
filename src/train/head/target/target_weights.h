#pragma once

#include <torch/types.h>

#include <set>
#include <string>

#include "io/checkpoint.h"
#include "model/config/config.h"
#include "train/head/head_model.h"

namespace talon {

/// The size of a target's vectors in a data set, for initial scales: root mean squares, without
/// those of first tokens, which are a thousand times larger (docs/methods.md 7.5).
struct FeatureScales {
  std::vector<double> taps;
  double last = 1;  // of the vector that the output matrix reads
};
FeatureScales measure_features(const Dataset& data);

/// Throws Error unless the data is of this target and a head of this kind can be trained for it.
void check_target(const Checkpoint& checkpoint, const ModelConfig& target, const DatasetInfo& data,
                  HeadKind kind);

/// Of the MLP that a row of the target's last layer goes through; of experts: of those that it goes
/// to.
int neurons_of(const ModelConfig& target);

/// A head of this kind for the target, scaled for its features.
HeadShape head_shape(HeadKind kind, const ModelConfig& target, const FeatureScales& scales);

/// What the head reads of its target, dequantised from its files. positions: of the rotary table.
/// rounds: the head's output rows are rounded to four bits.
TargetTables read_target_tables(const Checkpoint& target, const ModelConfig& config, int positions,
                                torch::ScalarType low, torch::Device device, bool rounds = false);

/// Starts from the target's last layer, a draft model from its first ones and the last:
/// docs/methods.md 7.5. A Medusa head starts as the identity.
/// Returns the parts of a layer that start at random, since the target's are of another form.
std::set<std::string> set_initial_values(ParameterStore& parameters, const HeadShape& shape,
                                         const Checkpoint& target, const ModelConfig& config,
                                         const FeatureScales& scales, std::uint64_t seed);

}  // namespace talon
