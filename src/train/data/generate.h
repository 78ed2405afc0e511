#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/stop.h"
#include "model/model.h"
#include "model/target.h"
#include "runtime/heads/heads.h"
#include "train/data/plan.h"
#include "train/data/shard_writer.h"

namespace talon {

struct GenerateOptions {
  int batch = 32;  // sequences at once
  int max_new = 256;
  std::uint64_t tokens = 0;  // response tokens this shard is to hold; 0: all of the plan
  std::vector<TokenId> end_tokens;
  std::vector<FeatureTap> taps;             // recorded; none: tokens only
  FeatureType features = FeatureType::f16;  // how they are stored
  std::string drafter = "none";             // changes the speed only
  HeadFinder heads;                         // for drafters that name none; may be empty
  std::string policy = "throughput";
  int chunk = 256;  // prompt rows of one sequence in a forward
  int max_rows = 512;
  KvType kv = KvType::f16;
  // Of a target that draws, whose answers are pictures. Above 1 the rows of the guide are recorded,
  // too, as a conversation that begins with its prompt (SequenceRows::guidance).
  float guidance = 1;
  std::vector<TokenId> guide_prompt;
};

struct GenerateReport {
  // Made now; of pictures, without the rows of guides, but for the tokens of their prompts.
  std::uint64_t conversations = 0, prompt_tokens = 0, response_tokens = 0;
  std::uint64_t resumed_conversations = 0, resumed_response_tokens = 0;  // found in the folder
  std::uint64_t drawn_tokens = 0;   // now, those of conversations under way included
  std::uint64_t copied_tokens = 0;  // of prompts, found in the conversation before
  std::uint64_t saturated = 0;      // features beyond the half floats
  double seconds = 0;
  bool complete = false;  // nothing of the plan is left, or `tokens` are reached
};

/// How far it is; `total` response tokens are an estimate unless they were asked for.
using GenerateProgress =
    std::function<void(const GenerateReport& report, std::uint64_t total_response_tokens)>;

/// What a folder holds: the response tokens of each job.
using FinishedJobs = std::unordered_map<std::uint64_t, std::uint32_t>;
FinishedJobs finished_jobs(const std::filesystem::path& folder, const ShardKind& kind);

/// Lets the target answer the jobs of the plan that are not `finished`, many at once, and appends
/// each conversation to `writer` when it ends. A ready-made response is read, not made. Stops soon
/// after `stop` is requested; conversations under way are then made again by the next run. Throws
/// Error when writing fails or the model gives no usable numbers.
GenerateReport generate(const Model& model, const DataPlan& plan, const FinishedJobs& finished,
                        ShardWriter& writer, const GenerateOptions& options,
                        const GenerateProgress& progress, const StopFlag& stop);

}  // namespace talon
