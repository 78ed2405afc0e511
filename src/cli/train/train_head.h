#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options/model_options.h"
#include "cli/train/train_flags.h"
#include "train/head/head_options.h"

namespace talon {

/// What `talon train head` was given.
struct TrainHeadRequest {
  ModelOptions model;
  HeadTrainOptions train;
  QuestionOptions questions = {.limit = 24};  // to measure on; without a file: not measured
  // At which it is measured; the first decides. Empty: 0, of pictures 1.
  std::vector<double> temperatures;
  double guidance = 1;  // of the pictures that it is measured on
};

/// Runs it; the exit code.
using TrainHeadRunner = std::function<int(const TrainHeadRequest&)>;

/// The same command in `talon`, where `run` starts talon-train, and in talon-train itself.
std::unique_ptr<Command> make_train_head(CLI::App& parent, TrainHeadRunner run);

/// The program `talon-train` beside this one. Throws Error if it is not there: this build has no
/// libtorch.
std::filesystem::path trainer_program();

/// Replaces this process by trainer_program(), with the same arguments.
int start_trainer_program();

}  // namespace talon
