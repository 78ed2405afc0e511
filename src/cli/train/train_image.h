#pragma once

#include <functional>
#include <memory>
#include <variant>

#include "cli/command.h"
#include "train/image/image_options.h"

namespace talon {

/// What `talon train image tokenizer|codes|model|features` was given.
using TrainImageRequest =
    std::variant<TokenizerOptions, CodesOptions, ImageModelOptions, FeaturesOptions>;

/// Runs it; the exit code.
using TrainImageRunner = std::function<int(const TrainImageRequest&)>;

/// The same command in `talon`, where `run` starts talon-train, and in talon-train itself.
std::unique_ptr<Command> make_train_image(CLI::App& parent, TrainImageRunner run);

}  // namespace talon
