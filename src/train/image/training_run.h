#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "train/head/curves.h"
#include "train/head/math/optimizer.h"
#include "train/head/math/parameters.h"
#include "train/image/image_options.h"

namespace talon {

/// Named numbers of an iteration or an evaluation.
using Measures = std::vector<std::pair<std::string, double>>;

/// What is trained. A run of it can be stopped after any iteration and gone on with to the same
/// bits, so all that an iteration depends on is `place`, the parameters and extra_state().
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  virtual ParameterStore& parameters() = 0;
  /// Adds to the gradients for the pictures at [place, place + batch) of the task's order. Measures
  /// are wanted only if `measured`.
  virtual Measures learn(std::int64_t place, int batch, bool measured) = 0;
  /// Tensors beside the parameters that belong to the state; they are read and written.
  virtual std::vector<std::pair<std::string, torch::Tensor>> extra_state() { return {}; }
  /// Called when extra_state() was read from a checkpoint.
  virtual void resumed() {}
  /// On held-out pictures, with the values as they are.
  virtual Measures evaluate() = 0;
  /// Writes what was trained into `folder`. facts: of the run, for its card.
  virtual void write(const std::filesystem::path& folder, const Json& facts) = 0;
};

struct TrainingHooks {
  std::function<void(std::string_view)> log;
  const StopFlag* stop = nullptr;
};

/// Where a run ended.
struct TrainingResult {
  bool finished = false;  // false: it was stopped, the same call goes on
  Json facts;
};

/// Trains until schedule.pictures were seen. OUT/checkpoint.safetensors is written aside and
/// renamed; OUT/curve.csv and OUT/evaluations.csv are the curves. A run in OUT is gone on with, to
/// other epochs if those are asked for; one that is finished only says so. Throws Error naming the
/// setting that differs, or when the loss is not finite, UsageError for a run without a picture.
TrainingResult train(TrainingTask& task, const ImageSchedule& schedule, const Json& settings,
                     const TrainingHooks& hooks);

/// A file of tensors, written aside and renamed. f32, f16, bf16 or whole numbers, as each
/// tensor has it.
void write_tensors(const std::filesystem::path& file,
                   const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata = {});

/// Fills `to` from the file's tensor of that name. Throws Error if sizes or types differ.
void read_tensor(const Checkpoint& file, const std::string& name, torch::Tensor to);

}  // namespace talon
