#pragma once

#include "draft/block/slot_network.h"
#include "draft/head/head_network.h"

namespace talon {

/// P-EAGLE (arXiv:2602.01469): an EAGLE-3 head with more layers, which guesses further tokens from
/// rows of masks behind the newest pair, each seeing those before it. Weights are borrowed.
class ParallelNetwork : public SlotNetwork {
 public:
  /// window: what rows see.
  ParallelNetwork(const HeadWeights& weights, int guesses, int positions, const PairWindow& window);

  Backend& backend() const override { return network_.backend(); }
  int max_rows() const override { return network_.max_rows(); }
  int feature_width() const override { return network_.feature_width(); }
  int hidden() const override { return network_.hidden(); }
  int guesses() const override { return guesses_; }
  int rows_in_flight() const override { return guesses_ - 1; }
  void forward(const HeadPass& pass) override { network_.forward(pass); }
  void guess(std::span<const BlockRoot> roots, KvStore& cache, const View& out) override;
  OutputNorm output_norm() const override;

 private:
  const HeadWeights& weights_;
  int guesses_;
  HeadNetwork network_;
  Buffer features_;  // of masks, [max_rows, feature width]
  Buffer outputs_;   // [max_rows, H]
};

}  // namespace talon
