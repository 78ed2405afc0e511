#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "train/head/head_options.h"

namespace talon {

/// Named acceptance lengths of a head; the first decides which head is the best.
using HeadScores = std::vector<std::pair<std::string, double>>;

struct HeadTrainHooks {
  /// Measures the head in a folder through the real engine; empty: never. What it returns when
  /// `stop` is requested meanwhile is not kept.
  std::function<HeadScores(const std::filesystem::path& head)> evaluate;
  Json measured_with;  // what its scores depend on: scores under other settings are not compared
  std::function<void(std::string_view line)> log;
  const StopFlag* stop = nullptr;  // or null: when requested, it saves a checkpoint and returns
};

struct HeadTrainResult {
  std::filesystem::path
      head;  // folder of the exported head; empty when it was stopped before the end
  HeadScores scores;
  Json facts;  // of that head: data, pairs, seconds, settings, coverage, as its card says
};

/// Trains a head for `target` on a data set made by `talon train data` and exports it to
/// options.out/head: `docs/training.md`. Resumes from options.out/checkpoint.safetensors if it is
/// there, and then goes on to the bit as if it had never stopped (on the same data); a run that is
/// over changes nothing. Where it measures otherwise than before, the best head so far is
/// forgotten, and begins a new evaluations.csv. Throws Error naming what is wrong: data of another
/// target, a damaged shard, a checkpoint of another run, a full disk, a loss that is not finite
/// (the last good checkpoint is kept).
HeadTrainResult train_head(const HeadTrainOptions& options, const Checkpoint& target,
                           const HeadTrainHooks& hooks);

}  // namespace talon
