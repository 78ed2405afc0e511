#include "cli/trainer/image.h"

#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "train/image/picture_codes.h"
#include "train/image/train_features.h"
#include "train/image/train_image_model.h"
#include "train/image/train_tokenizer.h"

namespace talon {
namespace {

bool start(const TokenizerOptions& options, const TrainingHooks& hooks) {
  return train_tokenizer(options, hooks).finished;
}
bool start(const CodesOptions& options, const TrainingHooks& hooks) {
  return make_codes(options, hooks);
}
bool start(const ImageModelOptions& options, const TrainingHooks& hooks) {
  return train_image_model(options, hooks).finished;
}
bool start(const FeaturesOptions& options, const TrainingHooks& hooks) {
  return train_features(options, hooks).finished;
}

int threads_of(const CodesOptions& options) { return options.threads; }
template <typename Options>
int threads_of(const Options& options) {
  return options.schedule.threads;
}

}  // namespace

int threads_of(const TrainImageRequest& request) {
  return std::visit([](const auto& options) { return threads_of(options); }, request);
}

int train_image_command(const TrainImageRequest& request) {
  TrainingHooks hooks;
  hooks.log = [](std::string_view line) { note("{}", line); };
  const InterruptGuard interrupt;
  hooks.stop = &interrupt.stop();
  const bool finished =
      std::visit([&](const auto& options) { return start(options, hooks); }, request);
  write_note(finished ? "done" : "stopped; the same command goes on");
  return finished ? kExitDone : kExitInterrupted;
}

}  // namespace talon
