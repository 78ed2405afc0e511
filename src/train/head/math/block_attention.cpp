#include "train/head/math/block_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace talon {
namespace {

using torch::Tensor;

/// 0 where a row may look and minus infinity elsewhere.
Tensor bias_where(const Tensor& hidden, const Tensor& like) {
  return at::zeros(hidden.sizes(), like.options())
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

/// Of one sequence. q: [anchors, rows, kv_heads, group, d]; k, v: [keys, kv_heads, d]; own_k,
/// own_v: [anchors, rows, kv_heads, d]; visible: keys of each anchor.
Tensor attend_sequence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& own_k,
                       const Tensor& own_v, const Tensor& visible, bool causal) {
  const auto anchors = q.size(0), rows = q.size(1), heads = q.size(2), group = q.size(3);
  const auto d = q.size(4), keys = k.size(0);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  // [kv_heads, group * anchors * rows, d], and per anchor [anchors, kv_heads, group * rows, d].
  const Tensor by_head = q.permute({2, 3, 0, 1, 4}).reshape({heads, group * anchors * rows, d});
  const Tensor by_anchor = q.permute({0, 2, 3, 1, 4}).reshape({anchors, heads, group * rows, d});
  const Tensor of_text =
      at::matmul(by_head, k.permute({1, 2, 0}))
          .reshape({heads, group, anchors, rows, keys})
          .to(torch::kFloat == q.scalar_type() || torch::kDouble == q.scalar_type()
                  ? q.scalar_type()
                  : torch::kFloat);
  const Tensor of_block = at::matmul(by_anchor, own_k.permute({0, 2, 3, 1}))
                              .reshape({anchors, heads, group, rows, rows})
                              .permute({1, 2, 0, 3, 4})
                              .to(of_text.scalar_type());
  const Tensor later = at::arange(keys, visible.options()).unsqueeze(0).ge(visible.unsqueeze(1));
  Tensor scores_text = of_text * scale + bias_where(later, of_text).view({1, 1, anchors, 1, keys});
  Tensor scores_block = of_block * scale;
  if (causal) {
    const Tensor ahead = at::ones({rows, rows}, later.options()).triu(1);
    scores_block = scores_block + bias_where(ahead, of_text);
  }
  const auto weights = at::softmax(at::cat({scores_text, scores_block}, 4), 4).to(q.scalar_type());
  const Tensor in_text = weights.narrow(4, 0, keys).reshape({heads, group * anchors * rows, keys});
  const Tensor in_block = weights.narrow(4, keys, rows)
                              .permute({2, 0, 1, 3, 4})
                              .reshape({anchors, heads, group * rows, rows});
  const Tensor text = at::matmul(in_text, v.permute({1, 0, 2}))
                          .reshape({heads, group, anchors, rows, d})
                          .permute({2, 3, 0, 1, 4});
  const Tensor block = at::matmul(in_block, own_v.permute({0, 2, 1, 3}))
                           .reshape({anchors, heads, group, rows, d})
                           .permute({0, 3, 1, 2, 4});
  return (text + block).reshape({anchors * rows, heads * group * d});
}

}  // namespace

Tensor attend_blocks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& block_k,
                     const Tensor& block_v, const AnchoredRows& blocks, int head_dim) {
  const std::int64_t d = head_dim, rows = blocks.rows;
  const std::int64_t kv_heads = k.size(1) / d;
  std::vector<Tensor> outputs;
  std::int64_t done = 0;
  for (const SequenceRange& range : blocks.sequences) {
    if (range.query_count == 0) continue;
    std::vector<std::int64_t> visible;
    for (std::int64_t i = 0; i < range.query_count; ++i) {
      visible.push_back(blocks.pair[static_cast<std::size_t>(range.query_begin + i)] -
                        range.key_begin + 1);
    }
    const std::int64_t keys = *std::max_element(visible.begin(), visible.end());
    const auto of_block = [&](const Tensor& x) {
      return x.narrow(0, range.query_begin * rows, range.query_count * rows)
          .view({range.query_count, rows, kv_heads, -1, d});
    };
    const auto of_text = [&](const Tensor& x) {
      return x.narrow(0, range.key_begin, keys).view({keys, kv_heads, d});
    };
    outputs.push_back(attend_sequence(of_block(q), of_text(k), of_text(v),
                                      of_block(block_k).squeeze(3), of_block(block_v).squeeze(3),
                                      torch::tensor(visible, torch::kLong).to(q.device()),
                                      blocks.causal));
    done += range.query_count * rows;
  }
  if (done < q.size(0)) outputs.push_back(at::zeros({q.size(0) - done, q.size(1)}, q.options()));
  return at::cat(outputs);
}

}  // namespace talon
