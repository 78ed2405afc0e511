#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "draft/gemma4_assistant/assistant_config.h"
#include "model/model.h"

namespace talon {

/// Gemma 4's assistant on the backend of its target. Immutable after load.
struct Gemma4AssistantWeights {
  std::filesystem::path source;       // the file or folder it was loaded from
  Gemma4AssistantConfig config;       // fitted to the target
  const Model* target = nullptr;      // borrowed: its embedding is read
  std::unique_ptr<Weight> before;     // [H, 2 * hidden size of the target]
  std::vector<LayerWeights> layers;   // without keys and values
  Buffer norm;                        // [1, H]
  std::unique_ptr<Weight> after;      // [hidden size of the target, H]
  std::unique_ptr<Weight> output;     // [vocabulary, H], cluster by cluster where there are some
  std::unique_ptr<Weight> centroids;  // [clusters, H], or null
  std::vector<TokenId> target_token;  // of each row of `output`; empty: the same
  std::size_t pass_bytes = 0;         // of weights read to draft one level
};

/// Throws Error naming the field or tensor where the files contradict themselves or the assistant
/// does not fit the target, which is borrowed.
Gemma4AssistantWeights load_gemma4_assistant(const Checkpoint& checkpoint, const Model& target,
                                             WeightLayout layout);

}  // namespace talon
