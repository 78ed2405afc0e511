#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "draft/head/head_config.h"
#include "io/checkpoint.h"
#include "model/model.h"

namespace talon {

/// A draft head on the backend of its target. Immutable after load. Null buffers: the head has no
/// such part.
struct HeadWeights {
  std::filesystem::path source;  // the file or folder it was loaded from
  HeadConfig config;
  std::optional<LayerPlan> plan;  // of its layer, where that is not Llama's
  std::vector<FeatureTap> taps;
  Backend* backend = nullptr;         // borrowed, like the target's weights
  const Weight* embedding = nullptr;  // [vocabulary, H], own or the target's
  const Weight* output = nullptr;     // [draft vocabulary, H], own or the target's
  LogitForm logit_form;
  std::unique_ptr<Weight> own_embedding, own_output;
  bool reads_captions = true;  // in place of the embeddings of their tokens

  std::unique_ptr<Weight> fc;
  Buffer fc_bias;
  std::vector<Buffer> tap_norms;  // per tap, before fc
  Buffer fused_norm;              // over all taps, before fc
  Buffer embedding_norm, feature_norm, output_norm;
  LayerWeights layer;
  std::vector<LayerWeights> further_layers;  // of ordinary width
  Buffer mask_features;               // P-EAGLE: [1, feature width], in place of the target's
  std::vector<TokenId> target_token;  // of each draft id; empty: the same
  std::size_t pass_bytes =
      0;  // of weights read to draft one level: all but the embedding table, and fc in EAGLE-3

  /// A page of the head's own cache.
  KvShape cache_page() const;
};

struct HeadOptions {
  WeightLayout layout = WeightLayout::int8;
  std::vector<int> tap_layers = {};  // in place of what the configuration says; empty: that
  // What the file has in four bits stays as it is, and the output rows of a draft vocabulary are
  // int4 where they are most of what a pass reads.
  bool mixed = false;
};

/// Loads the head in `checkpoint` for `target`, which is borrowed. Throws Error naming the field
/// when files contradict themselves or the head does not fit the target.
HeadWeights load_head(const Checkpoint& checkpoint, const Model& target,
                      const HeadOptions& options = {});

}  // namespace talon
