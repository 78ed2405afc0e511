#include <dlfcn.h>
#include <malloc.h>
#include <torch/cuda.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>

#include "cli/options/command_words.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/train/train_head.h"
#include "cli/train/train_image.h"
#include "cli/train/train_policy.h"
#include "cli/trainer/image.h"
#include "cli/trainer/policy.h"
#include "cli/trainer/question_prompts.h"
#include "core/error.h"
#include "train/data/checksum.h"
#include "train/head/measure_head.h"
#include "train/head/train_head.h"

// talon-train: the commands of `talon train` that need libtorch.
namespace talon {
namespace {

/// Training makes and frees the same large tensors in every iteration: they are to stay with the
/// process. OpenBLAS is to take as many threads as torch.
void tune_process(int threads) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (void* set_threads = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set_threads)(threads);
  }
}

/// The head's drafters of growing size, the first of which decides.
std::vector<std::pair<std::string, std::string>> measured_drafters(const std::string& kind) {
  if (kind == "medusa") return {{"tree16", "medusa:nodes=15"}};
  if (kind == "dflash" || kind == "peagle") {
    return {{"chain", kind + ":topk=1"}, {"tree16", kind + ":topk=8,nodes=15"}};
  }
  const std::string name = kind == "eagle" ? "eagle2" : kind;
  return {{"chain4", name + ":topk=1,levels=4,nodes=4"},
          {"tree16", name + ":topk=8,levels=6,nodes=15"}};
}

HeadMeasure make_measure(const LoadedModel& loaded, const TrainHeadRequest& request) {
  HeadMeasure measure;
  measure.max_new = request.questions.max_new;
  measure.end_tokens = loaded.end_tokens;
  if (!loaded.model.config.image) {
    measure.prompts = question_prompts(loaded, request.questions);
    return measure;
  }
  measure.guidance = static_cast<float>(request.guidance);
  for (PicturePrompt& prompt : picture_prompts(loaded.model, request.questions)) {
    measure.prompts.push_back(std::move(prompt.own));
    measure.guide_prompt = std::move(prompt.guide);  // the same for all
  }
  return measure;
}

/// What the scores of heads depend on, beside the heads.
Json settings_of(const HeadMeasure& measure, const std::vector<double>& temperatures) {
  std::vector<std::uint64_t> sums;
  for (const auto& prompt : measure.prompts)
    sums.push_back(checksum(std::as_bytes(std::span(prompt))));
  return {{"prompts", checksum(std::as_bytes(std::span(sums)))},
          {"max_new", measure.max_new},
          {"temperatures", temperatures},
          {"guidance", measure.guidance}};
}

void check_device(const std::string& device) {
  if (device == "cpu" || torch::cuda::is_available()) return;
  throw UsageError(fmt::format(
      "--device: expected cpu, since libtorch finds no CUDA device here, got \"{}\"", device));
}

int train(const TrainHeadRequest& request) {
  check_device(request.train.device);
  tune_process(request.train.threads);
  TrainHeadRequest resolved = request;
  resolved.model.threads = request.train.threads;
  const Checkpoint target = open_files(source_of(request.model));
  HeadTrainHooks hooks;
  hooks.log = [](std::string_view line) { note("{}", line); };
  const InterruptGuard interrupt;
  hooks.stop = &interrupt.stop();
  std::optional<LoadedModel> loaded;
  HeadMeasure measure;
  if (!request.questions.file.empty() && request.train.rank == 0) {
    loaded.emplace(load_with_meter(resolved.model));
    measure = make_measure(*loaded, request);
    std::vector<double> temperatures = request.temperatures;
    if (temperatures.empty()) temperatures = {loaded->model.config.image ? 1.0 : 0.0};
    measure.stop = hooks.stop;
    hooks.measured_with = settings_of(measure, temperatures);
    const char* kept = learns_rounded(request.train) ? ",weights=int4" : "";
    hooks.evaluate = [&, temperatures, kept](const std::filesystem::path& head) {
      HeadScores scores;
      for (const double temperature : temperatures) {
        measure.temperature = temperature;
        const std::string suffix = temperature > 0 ? fmt::format("_t{}", temperature) : "";
        for (const auto& [name, drafter] : measured_drafters(request.train.kind)) {
          const std::string text = with_head(drafter, head) + kept;
          scores.emplace_back(name + suffix, measure_acceptance(loaded->model, measure, text));
        }
      }
      return scores;
    };
  }
  const HeadTrainResult result = train_head(request.train, target, hooks);
  if (request.train.rank != 0) return kExitDone;
  if (result.head.empty()) {
    note("stopped; the same command goes on");
    return kExitInterrupted;
  }
  note("head in {}: {}", result.head.string(), result.facts.dump());
  return kExitDone;
}

/// What libtorch says of an error goes on with where it was thrown.
std::string_view without_trace(std::string_view text) {
  return text.substr(0, text.find("\nException raised from"));
}

int run(int argc, char** argv) {
  CLI::App app("Talon's trainer of draft heads and policies: started by talon train", "talon");
  app.require_subcommand(1);
  CLI::App& parent = *app.add_subcommand("train", "make draft heads");
  parent.require_subcommand(1);
  const auto head = make_train_head(parent, train);
  const auto policy = make_train_policy(parent, [](const TrainPolicyRequest& request) {
    tune_process(request.train.threads);
    return train_policy_command(request);
  });
  const auto image = make_train_image(parent, [](const TrainImageRequest& request) {
    tune_process(threads_of(request));
    return train_image_command(request);
  });
  try {
    app.parse(command_words(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  for (Command* command : {policy.get(), image.get()}) {
    if (command->chosen()) return command->run();
  }
  return head->run();
}

}  // namespace
}  // namespace talon

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return talon::run(argc, argv);
  } catch (const talon::UsageError& error) {
    talon::note("talon: {}", error.what());
    return talon::kExitUsage;
  } catch (const std::exception& error) {
    talon::note("talon: {}", talon::without_trace(error.what()));
  }
  return talon::kExitFailed;
}
