#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "core/scratch_folder.h"
#include "engine/test_model.h"
#include "train/data/dataset.h"
#include "train/data/generate.h"
#include "train/data/manifest.h"

namespace talon::test {

/// A folder of training data that goes with the test.
class DataFolder : public ScratchFolder {
 public:
  std::filesystem::path only_shard() const {
    const auto shards = list_shards(path());
    if (shards.size() != 1) throw std::runtime_error("expected one shard");
    return shards.front();
  }
};

/// A conversation as values, to compare.
struct Kept {
  std::vector<TokenId> tokens;
  int response_begin = 0;
  double temperature = 0;
  std::string source;
  std::vector<std::byte> features;
  bool operator==(const Kept&) const = default;
};

/// All conversations of a folder by their tokens, so in an order of their own.
inline std::multimap<std::vector<TokenId>, Kept> contents(const std::filesystem::path& folder) {
  const Dataset dataset(folder);
  std::multimap<std::vector<TokenId>, Kept> all;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const Conversation c = dataset.read(i);
    Kept kept{{c.tokens.begin(), c.tokens.end()},
              c.response_begin,
              c.temperature,
              c.source,
              {c.features.begin(), c.features.end()}};
    all.emplace(kept.tokens, std::move(kept));
  }
  return all;
}

inline TestModel& data_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target",
                         make_cpu_backend({.threads = 1}));
  return model;
}

/// A letter is a token.
inline std::vector<TokenId> encode_letters(const std::string& text) {
  std::vector<TokenId> tokens = {1};
  for (const char letter : text) tokens.push_back(300 + letter % 128);
  return tokens;
}

inline std::vector<Prompt> some_prompts(int count) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i) {
    prompts.push_back({std::string(static_cast<std::size_t>(1 + i % 5), static_cast<char>('a' + i)),
                       i % 2 == 0 ? "even" : "odd", "MIT"});
  }
  return prompts;
}

inline PlanOptions small_plan() {
  PlanOptions plan;
  plan.samples = 2;
  plan.max_new = 12;
  return plan;
}

/// All features of a conversation, as half floats.
inline std::vector<std::uint16_t> halves_of(const Conversation& from) {
  const std::size_t values = from.format.values;
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(from.rows()) * values);
  for (int i = 0; i < from.rows(); ++i) {
    from.copy_row(i, 0, std::span(halves).subspan(static_cast<std::size_t>(i) * values, values));
  }
  return halves;
}

inline Manifest data_target(const std::vector<FeatureTap>& taps) {
  Manifest manifest;
  manifest.info = {"stories260k",
                   "sum",
                   data_model().model.config.hidden,
                   data_model().model.config.vocabulary,
                   {}};
  for (const FeatureTap& tap : taps) manifest.info.taps.push_back(tap.layer);
  return manifest;
}

inline GenerateOptions small_work() {
  GenerateOptions options;
  options.batch = 3;
  options.max_new = small_plan().max_new;
  options.end_tokens = {2};
  options.taps = {{1}, {2}, {4}, {FeatureTap::kFinalNorm}};
  options.chunk = 4;
  options.max_rows = 16;
  return options;
}

/// Runs a plan into a folder; what was said goes to `notes`.
inline GenerateReport fill(const std::filesystem::path& folder, const DataPlan& plan,
                           const GenerateOptions& options, const PlanOptions& shard = {},
                           std::string* notes = nullptr, const GenerateProgress& progress = {},
                           const StopFlag& stop = {}) {
  Manifest target = data_target(options.taps);
  target.info.features = options.features;
  const Manifest manifest = add_run(folder, target, Json::object());
  ShardWriter writer({folder, shard.shard, shard.shards, manifest.shard_kind()},
                     [&](const std::string& text) {
                       if (notes) *notes += text;
                     });
  return generate(data_model().model, plan, finished_jobs(folder, manifest.shard_kind()), writer,
                  options, progress, stop);
}

inline DataPlan letters_plan(int count, const PlanOptions& options = small_plan()) {
  return plan_prompts(some_prompts(count), encode_letters, {}, options);
}

}  // namespace talon::test
