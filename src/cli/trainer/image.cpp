#include "cli/trainer/image.h"

#include "bench/image/image_report.h"
#include "cli/bench/bench_report.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "train/image/compare/compare_pictures.h"
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

bool start(const CompareRequest& request, const TrainingHooks& hooks) {
  make_report_folder(request.report);
  std::vector<Json> methods;
  if (!request.bench.empty()) methods = read_method_lines(request.bench);
  CompareOptions options = request.compare;
  std::vector<std::string> sets;
  for (const Json& method : methods) {
    if (const auto pictures = method.find("pictures"); pictures != method.end())
      sets.push_back(pictures->is_string() ? pictures->get<std::string>() : pictures->dump());
  }
  options.sets.insert(options.sets.begin(), sets.begin(), sets.end());
  if (options.sets.empty()) {
    throw UsageError(
        "train image compare: expected pictures (--sets, or --bench of a run with --pictures), "
        "got none");
  }
  const std::vector<Json> compared = compare_pictures(options, hooks);
  if (compared.empty()) return false;
  const std::vector<Json> lines = with_methods(compared, methods);
  for (const Json& line : lines) write_json(line);
  const std::string markdown = image_markdown(lines);
  note("{}", markdown);
  if (request.report.empty()) return true;
  write_report(request.report, "pictures", image_report(lines, options.data), markdown, lines);
  return true;
}

int threads_of(const CodesOptions& options) { return options.threads; }
int threads_of(const CompareRequest& request) { return request.compare.threads; }
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
