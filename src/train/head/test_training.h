#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"
#include "train/data/test_folder.h"
#include "train/head/measure_head.h"
#include "train/head/train_head.h"

/// Small runs of the trainer for tests: a head for stories260K that learns from its own stories.
namespace talon::test {

inline constexpr const char* kTarget = TALON_TEST_DATA "/golden/stories260k/target";
inline constexpr int kVocabulary = 512;

/// Stories of the target itself, begun with letters.
inline void write_stories(const std::filesystem::path& folder, int prompts) {
  PlanOptions plan;
  plan.temperatures = TemperatureMix("0:0.5,0.5-0.9:0.5");
  plan.max_new = 40;
  GenerateOptions work = small_work();
  work.max_new = plan.max_new;
  work.batch = 8;
  work.max_rows = 64;
  fill(folder, letters_plan(prompts, plan), work);
}

inline HeadTrainOptions small_run(const DataFolder& data, const DataFolder& out) {
  HeadTrainOptions options;
  options.data = {data.path().string()};
  options.out = out.path().string();
  options.epochs = 1;
  options.batch = 128;
  options.steps = 2;
  options.rate = 3e-3;
  options.warmup = 2;
  options.loss_tokens = 256;
  options.draft_vocabulary = 0;
  options.max_tokens = 128;
  options.log_every = 1;
  options.precision = "f32";
  return options;
}

inline HeadTrainHooks quiet() {
  HeadTrainHooks hooks;
  hooks.log = [](std::string_view) {};
  return hooks;
}

inline HeadTrainResult train(const HeadTrainOptions& options,
                             const HeadTrainHooks& hooks = quiet()) {
  return train_head(options, open_checkpoint(kTarget), hooks);
}

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

/// What goes wrong, as text; empty if nothing does.
inline std::string failure_of(const HeadTrainOptions& options) {
  try {
    train(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Tokens per check on prompts that were not trained on.
inline double tau_of(const std::filesystem::path& head, const std::string& drafter) {
  HeadMeasure measure;
  for (int i = 0; i < 8; ++i) {
    measure.prompts.push_back(encode_letters(std::string(6, static_cast<char>('A' + i))));
  }
  measure.max_new = 40;
  measure.end_tokens = {2};
  return measure_acceptance(data_model().model, measure, with_head(drafter, head));
}

}  // namespace talon::test
