#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/stop.h"
#include "model/model.h"
#include "runtime/heads/heads.h"
#include "train/policy/draft_collector.h"

namespace talon {

struct GatherOptions {
  std::string drafter;  // `eagle3:head=FOLDER`
  HeadFinder heads;     // for one that names no head; may be empty
  CollectorOptions drafts;
  int max_new = 128;  // tokens of an answer
  int batch = 4;      // texts at once
  /// At which answers are drawn, in turn, with drafts that know the noise; 0: greedily.
  std::vector<double> temperatures = {0};
  std::uint64_t seed = 1;  // of the first answer; each has one of its own
};

/// Told after every step: texts that have ended, drafts so far.
using GatherProgress = std::function<void(std::size_t texts, std::size_t drafts)>;

/// Lets the target answer `prompts` through the real engine and drafts along. Ends early when
/// `stop` (or null) is requested. Throws UsageError for a drafter that does not exist or does
/// not fit, Error when the model fails.
std::vector<DraftExample> gather_drafts(const Model& target,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        const GatherOptions& options,
                                        const GatherProgress& progress, const StopFlag* stop);

/// `drafter` with room for all nodes that its beams look at, so that one draft tells the tree of
/// every level: where it says nothing of nodes, and is one drafter.
std::string with_whole_pool(const std::string& drafter);

}  // namespace talon
