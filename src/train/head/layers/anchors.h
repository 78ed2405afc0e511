#pragma once

#include <cstdint>

#include "train/head/batch.h"
#include "train/head/math/block_attention.h"

namespace talon {

/// `batch` with few of its queries, drawn with `seed`: at most `most` of each conversation. A block
/// drafter learns one block behind each of them.
Batch with_anchors(const Batch& batch, int most, std::uint64_t seed);

/// Blocks of so many rows behind the queries of such a batch.
AnchoredRows blocks_behind(const Batch& batch, int rows, bool causal);

}  // namespace talon
