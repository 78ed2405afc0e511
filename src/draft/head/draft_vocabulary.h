#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"
#include "draft/head/head_tensors.h"

namespace talon {

/// The target's id of each draft id: from `d2t`, which holds differences (a few converters store
/// ids, which `t2d` gives away), or from `token_map`, which holds ids (in GGUF files of some
/// converters differences). Empty when the head drafts from the whole vocabulary. Throws Error for
/// an id outside the target's vocabulary, one that two draft ids share, or a `t2d` that contradicts
/// `d2t`.
std::vector<TokenId> read_draft_vocabulary(const HeadTensors& tensors, int target_vocabulary);

/// The values of an integer or boolean tensor.
std::vector<std::int64_t> read_integers(const StoredTensor& tensor, const std::string& doing);

}  // namespace talon
