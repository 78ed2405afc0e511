#pragma once

#include "backend/index_list.h"
#include "draft/block/block_weights.h"
#include "draft/block/slot_network.h"
#include "model/block.h"
#include "model/rope.h"

namespace talon {

/// DFlash's transformer (docs/methods.md 2.6): rows of a block, the root and masks, see each other
/// and the committed text. Of that each layer keeps keys and values, made of the target's features
/// alone. Owns the activations; weights are borrowed.
class BlockNetwork : public SlotNetwork {
 public:
  /// block: rows of a pass, at most as many as the head was made for. positions: of the cache.
  /// window: the committed rows that layers see which do not slide by themselves.
  BlockNetwork(const BlockWeights& weights, int block, int positions, const PairWindow& window);

  Backend& backend() const override { return backend_; }
  int max_rows() const override { return max_rows_; }
  int feature_width() const override { return config_.feature_width; }
  int hidden() const override { return config_.hidden; }
  int guesses() const override { return block_ - config_.first_guess(); }
  int rows_in_flight() const override { return block_; }
  /// Writes the keys and values of committed rows.
  void forward(const HeadPass& pass) override;
  void guess(std::span<const BlockRoot> roots, KvStore& cache, const View& out) override;

 private:
  AttentionLayout lay_out(std::span<const BlockRoot> roots, bool slides) const;
  void write_cache(KvStore& cache, const PreparedLayout& layout, const View& rope);
  void run_block(const Indices& ids, KvStore& cache, const PreparedLayout& all,
                 const PreparedLayout* newest, const View& rope);

  const BlockWeights& weights_;
  const BlockConfig& config_;
  Backend& backend_;
  int block_;
  int max_rows_;
  PairWindow window_;
  LayerPlan plan_;
  LayerPlan full_plan_;  // of layers that do not slide by themselves
  BlockRunner runner_;
  RopeTable rope_;
  IndexList tokens_, guessing_;
  // Of committed rows: [max_rows, width].
  Buffer features_, context_, query_, keys_, values_, seen_;
  Buffer residual_;  // of the block: [max_rows, H]
  std::uint64_t replay_owner_ = new_replay_owner();
};

}  // namespace talon
