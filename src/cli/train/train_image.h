#pragma once

#include <functional>
#include <memory>
#include <variant>

#include "cli/command.h"
#include "train/image/image_options.h"

namespace talon {

/// `talon train image compare`
struct CompareRequest {
  CompareOptions compare;
  std::string
      bench;  // JSON lines of `talon bench image --pictures`, whose sets come first; or none
  std::string report;  // folder; or none
};

/// What `talon train image tokenizer|codes|model|features|compare` was given.
using TrainImageRequest = std::variant<TokenizerOptions, CodesOptions, ImageModelOptions,
                                       FeaturesOptions, CompareRequest>;

/// Runs it; the exit code.
using TrainImageRunner = std::function<int(const TrainImageRequest&)>;

/// The same command in `talon`, where `run` starts talon-train, and in talon-train itself.
std::unique_ptr<Command> make_train_image(CLI::App& parent, TrainImageRunner run);

}  // namespace talon
