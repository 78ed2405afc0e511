#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/types.h"
#include "train/data/overlap.h"
#include "train/data/prompt_file.h"
#include "train/data/temperature_mix.h"

namespace talon {

/// How prompts become answers. All of it but the shard decides what the answers are.
struct PlanOptions {
  int samples = 1;       // answers to each prompt
  int max_new = 256;     // tokens of an answer
  int max_prompt = 512;  // tokens; longer prompts are left out
  int context = 0;       // of the target; longer ready-made conversations are left out; 0: none
  std::uint64_t seed = 1;
  TemperatureMix temperatures{"0:0.5,0.7-1:0.5"};
  float guidance = 1;  // of a target that draws; at most 1: no guide
  int shard = 0;       // this process of
  int shards = 1;
};

/// A prompt as the target reads it, perhaps with a ready-made response behind it.
struct AskedPrompt {
  std::vector<TokenId> tokens;
  int response_begin = 0;  // where the ready-made response begins; 0: there is none
  std::string source;
};

/// One answer to one prompt. Its id depends on the prompt's text, the sample and the options that
/// decide the answer, and on nothing else: it tells what a folder already holds.
struct DataJob {
  std::uint64_t id = 0;
  std::uint64_t seed = 0;
  std::uint32_t prompt = 0;  // index into DataPlan::prompts
  int sample = 0;
  float temperature = 0;
};

struct DataPlan {
  std::vector<AskedPrompt> prompts;
  std::vector<DataJob> jobs;  // of this shard, in the order of work: every beginning of it is a
                              // fair sample of the sources
  int read = 0, duplicates = 0, held_out = 0, too_long = 0;  // prompts
};

using EncodePrompt = std::function<std::vector<TokenId>(const std::string& text)>;

/// Each text once, without those that touch `held_out`. A prompt is answered greedily once at most.
DataPlan plan_prompts(std::span<const Prompt> prompts, const EncodePrompt& encode,
                      const Overlap& held_out, const PlanOptions& options);
/// Each conversation once; `max_prompt`, `max_new` and `context` bound prompts, responses and both
/// together, the others of the options but the shard have no meaning.
DataPlan plan_responses(std::span<const ReadyResponse> responses, const PlanOptions& options);

}  // namespace talon
