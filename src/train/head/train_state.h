#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "io/json.h"
#include "train/head/head_model.h"
#include "train/head/math/optimizer.h"
#include "train/head/math/parameters.h"
#include "train/head/target/target_weights.h"
#include "train/head/token_counts.h"
#include "train/head/train_head.h"

namespace talon {

/// Where a run is, beside its values and moments: all that the next iteration depends on.
struct TrainState {
  std::int64_t pairs = 0;       // trained on, all processes
  std::int64_t planned = 0;     // pairs of the whole run
  std::int64_t data_pairs = 0;  // of the data when it started; 0: not known
  double seconds = 0;           // spent training
  int epoch = 0;
  std::size_t epoch_size = 0;     // conversations of the current epoch
  std::size_t next = 0;           // position in the epoch's order
  double best = 0;                // of the evaluations
  HeadScores best_scores;         // all of that one
  Json best_facts;                // of the exported head; null: not known
  Json measured_with;             // HeadTrainHooks::measured_with of the evaluations
  int since_best = 0;             // evaluations since then
  std::int64_t evaluated = 0;     // the iteration that was measured last
  std::int64_t concluded = -1;    // the iteration that was measured and exported as the last one
  FeatureScales scales;           // in which the values are
  TokenCounts counts;             // of response tokens, first epoch
  std::vector<TokenId> frequent;  // the tokens of the loss
};

/// One safetensors file with values, moments, average and state, written aside and renamed. Throws
/// Error with the path and the system's reason.
void save_checkpoint(const std::filesystem::path& file, const TrainState& state,
                     const Json& settings, const ParameterStore& parameters,
                     const Optimizer& optimizer);
/// Throws Error naming the setting that differs, or the tensor that does not fit.
void load_checkpoint(const std::filesystem::path& file, const Json& settings, TrainState& state,
                     ParameterStore& parameters, Optimizer& optimizer);

/// The scales of features that the values of a checkpoint were trained with; none in older ones,
/// and where there is no such checkpoint.
std::optional<FeatureScales> stored_scales(const std::filesystem::path& checkpoint);

/// Values to start another run, on `data` of `target`, from: the average of a checkpoint of the
/// same kind of head, or a head (import_head, check_form).
void load_start(const std::filesystem::path& path, const HeadShape& shape, const DatasetInfo& data,
                const ModelConfig& target, ParameterStore& parameters);

}  // namespace talon
