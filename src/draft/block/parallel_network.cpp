#include "draft/block/parallel_network.h"

#include <vector>

#include "model/row_layout.h"

namespace talon {
namespace {

constexpr int kMostRows = 128;  // of a pass

}  // namespace

ParallelNetwork::ParallelNetwork(const HeadWeights& weights, int guesses, int positions,
                                 const PairWindow& window)
    : weights_(weights),
      guesses_(guesses),
      network_(weights, {}, kMostRows, positions + guesses, window),
      features_(backend().allocate(kMostRows, feature_width())),
      outputs_(backend().allocate(kMostRows, hidden())) {
  for (int row = 0; row < kMostRows; ++row) {
    backend().copy(weights.mask_features.view(), features_.view().row_range(row, 1));
  }
}

void ParallelNetwork::guess(std::span<const BlockRoot> roots, KvStore& cache, const View& out) {
  const int masks = guesses_ - 1;
  const std::vector<TokenId> tokens(static_cast<std::size_t>(masks), weights_.config.mask_token);
  std::vector<SequenceRows> batch;
  std::vector<TokenId> all;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const int first = static_cast<int>(i) * guesses_;
    backend().copy(roots[i].state->output.view(), out.row_range(first, 1));
    batch.push_back({.sequence = &roots[i].state->cache, .tokens = tokens, .parents = {}});
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  if (masks == 0) return;
  AttentionLayout layout;
  lay_out_rows(batch, layout);
  const int rows = static_cast<int>(all.size());
  network_.forward({.tokens = all,
                    .layout = &layout,
                    .cache = &cache,
                    .features = features_.rows(rows),
                    .from_target = true,
                    .out = outputs_.rows(rows)});
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const int first = static_cast<int>(i) * guesses_;
    backend().copy(outputs_.view().row_range(static_cast<int>(i) * masks, masks),
                   out.row_range(first + 1, masks));
  }
}

OutputNorm ParallelNetwork::output_norm() const {
  if (weights_.config.norm_output) return {};
  return {weights_.output_norm.view(), weights_.config.norm_epsilon};
}

}  // namespace talon
