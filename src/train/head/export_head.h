#pragma once

#include <torch/types.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "model/config/config.h"
#include "train/head/head_model.h"
#include "train/head/math/parameters.h"

namespace talon {

struct HeadExport {
  const HeadShape& shape;
  const ParameterStore& parameters;
  torch::Tensor values;  // [count]: the values to export, laid out as parameters'
  const TargetTables& target;
  std::span<const TokenId> draft_vocabulary;  // ascending; empty: all tokens
  const ModelConfig& config;
  int places = 0;    // that a block drafter guesses in a pass
  Json origin = {};  // how the head was made: goes into config.json under "talon"
};

/// Writes config.json and model.safetensors (f16) in the official layout (docs/methods.md
/// 2.1, 2.2; a Medusa head's in 4, with the output rows shared by all heads; a draft model as a
/// Llama without a tokenizer) into `folder`, made if missing. A reduced vocabulary adds
/// lm_head.weight, d2t and t2d. Throws Error for a value that f16 does not hold.
void export_head(const HeadExport& head, const std::filesystem::path& folder);

/// Whether `path` names a head, a folder or a GGUF file, and not a checkpoint of training.
bool is_head_file(const std::filesystem::path& path);

/// Sets the parameters to those of a head, whatever its vocabulary: an EAGLE head in any layout
/// that drafts, GGUF included, or another as export_head() wrote it. Throws Error naming the file
/// and the tensor that is missing, of another shape or without a place in the head to train.
void import_head(const std::filesystem::path& path, const HeadShape& shape,
                 ParameterStore& parameters);

/// Throws Error for an EAGLE or P-EAGLE head whose configuration says that it computes otherwise
/// than those trained here, or taps other layers of the target than `data` has the streams of: its
/// tensors would fit all the same.
void check_form(const std::filesystem::path& path, HeadKind kind, const DatasetInfo& data,
                const ModelConfig& target);

/// The tokens that a head drafts, ascending; none if it drafts all, or `path` is a checkpoint of
/// training.
std::vector<TokenId> drafted_tokens(const std::filesystem::path& path, int target_vocabulary);

}  // namespace talon
