#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "draft/block/block_config.h"
#include "model/model.h"

namespace talon {

/// A block drafter on the backend of its target. Immutable after load. Null: it has no such part.
struct BlockWeights {
  std::filesystem::path source;  // the file or folder it was loaded from
  BlockConfig config;
  std::vector<FeatureTap> taps;
  Backend* backend = nullptr;         // borrowed, like the target's weights
  const Weight* embedding = nullptr;  // [vocabulary, H], own or the target's
  float embedding_scale = 1;
  const Weight* output = nullptr;  // [draft vocabulary, H], own or the target's
  LogitForm logit_form;
  std::unique_ptr<Weight> own_embedding, own_output;
  std::unique_ptr<Weight> fc;
  Buffer context_norm, output_norm;
  std::vector<LayerWeights> layers;
  std::vector<TokenId> target_token;  // of each draft id; empty: the same
  // DSpark: logits += next * previous[token before], or what `joint` makes of it (MarkovOutput).
  std::unique_ptr<Weight> previous;  // [vocabulary, rank]
  std::unique_ptr<Weight> next;      // [draft vocabulary, rank]
  std::unique_ptr<Weight> joint;     // gated: [rank, H + rank]; rnn: [3 * rank, 2 * rank + H]
  Buffer joint_bias;
  std::unique_ptr<Weight> confidence;  // [1, H or H + rank]
  Buffer confidence_bias;
};

/// Loads the head in `checkpoint` for `target`, which is borrowed. Throws Error naming the field
/// when files contradict themselves or the head does not fit the target.
BlockWeights load_block_head(const Checkpoint& checkpoint, const Model& target,
                             WeightLayout layout);

}  // namespace talon
