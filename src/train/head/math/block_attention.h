#pragma once

#include <torch/types.h>

#include <vector>

#include "train/head/math/functions.h"

namespace talon {

/// Rows of blocks, which stand behind anchors in a packed batch: `rows` for each, anchor after
/// anchor. Sequence s has the anchors [query_begin, query_begin + query_count) and, as keys, its
/// pairs; an anchor's block sees those up to the anchor's own pair.
struct AnchoredRows {
  int rows = 0;
  bool causal = false;             // a row sees no later row of its block
  std::vector<std::int64_t> pair;  // of each anchor, over the batch; padding has any
  std::vector<SequenceRange> sequences;
};

/// Attention of block drafters (docs/methods.md 2.6, 7.7). q: [anchors * rows, heads * d]; k, v: of
/// the pairs, [pairs, kv_heads * d]; block_k, block_v: [anchors * rows, kv_heads * d]. Anchors of
/// no sequence give zeros.
torch::Tensor attend_blocks(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& block_k, const torch::Tensor& block_v,
                            const AnchoredRows& blocks, int head_dim);

}  // namespace talon
