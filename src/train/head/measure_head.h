#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/stop.h"
#include "core/types.h"
#include "model/model.h"

namespace talon {

/// What a head is measured on: answers of the target to prompts.
struct HeadMeasure {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenId> end_tokens;
  int max_new = 128;
  double temperature = 0;
  // Of a target that draws, whose answers are pictures (SequenceRows::guidance).
  float guidance = 1;
  std::vector<TokenId> guide_prompt = {};
  const StopFlag* stop = nullptr;  // or null: when requested, what is returned is of no use
};

/// `drafter` (`eagle3:topk=1`) with the head in `folder`, or the draft model.
std::string with_head(const std::string& drafter, const std::filesystem::path& folder);

/// Tokens per check of the target (bonus included) with `drafter` (`eagle3:head=FOLDER,...`), many
/// prompts decoded together through the real engine with trees as large as the drafter's options
/// say: as many as if each prompt were alone.
double measure_acceptance(const Model& target, const HeadMeasure& measure,
                          const std::string& drafter);

}  // namespace talon
