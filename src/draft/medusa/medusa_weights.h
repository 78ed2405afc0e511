#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"
#include "draft/head/head_tensors.h"
#include "draft/head/logit_form.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "model/model.h"

namespace talon {

/// What the files of Medusa heads hold (docs/formats.md). Sizes come from the tensors: the
/// configurations of published heads count wrong.
struct MedusaConfig {
  int hidden = 0;
  int heads = 0;             // head i guesses the token i + 2 places after its feature's
  int blocks = 0;            // residual blocks of each head
  int draft_vocabulary = 0;  // rows of the output matrices; 0: the target's matrix is used
  bool own_outputs = false;  // each head has its own output matrix; else all share one
  bool reduced_vocabulary = false;
  SaidLogitForm logit_form;
};

/// Whether the files hold Medusa heads.
bool is_medusa_head(const Checkpoint& checkpoint);

/// For `talon inspect`.
Json describe_medusa(const Checkpoint& checkpoint);

/// Throws Error naming the field in which the heads do not fit the target.
void check_medusa_fits(const Checkpoint& heads, const ModelConfig& target);

/// Medusa heads on the backend of their target. Immutable after load.
struct MedusaWeights {
  struct Block {  // x + silu(weight x + bias)
    std::unique_ptr<Weight> weight;
    Buffer bias;  // or empty
  };
  struct Head {
    std::vector<Block> blocks;
    std::unique_ptr<Weight> own_output;
  };
  std::filesystem::path source;  // the file or folder they were loaded from
  MedusaConfig config;
  Backend* backend = nullptr;  // borrowed, like the target's weights
  std::vector<Head> heads;
  std::unique_ptr<Weight> shared_output;
  const Weight* target_output = nullptr;
  LogitForm logit_form;
  std::vector<TokenId> target_token;  // of each draft id; empty: the same

  const Weight& output_of(std::size_t head) const;
};

/// Loads the heads in `checkpoint` for `target`, which is borrowed. Throws Error naming the field
/// when the files contradict themselves or do not fit the target.
MedusaWeights load_medusa(const Checkpoint& checkpoint, const Model& target, WeightLayout layout);

}  // namespace talon
