#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options/model_options.h"
#include "cli/train/train_flags.h"
#include "train/policy/policy_options.h"

namespace talon {

/// What `talon train policy` was given.
struct TrainPolicyRequest {
  ModelOptions model;
  PolicyTrainOptions train;
  QuestionOptions questions;
  int texts_at_once = 4;
};

/// Runs it; the exit code.
using TrainPolicyRunner = std::function<int(const TrainPolicyRequest&)>;

/// The same command in `talon`, where `run` starts talon-train, and in talon-train itself.
std::unique_ptr<Command> make_train_policy(CLI::App& parent, TrainPolicyRunner run);

}  // namespace talon
