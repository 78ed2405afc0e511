#pragma once

#include <span>
#include <vector>

#include "backend/index_list.h"
#include "draft/block/block_weights.h"
#include "draft/output_head.h"

namespace talon {

/// DSpark's guesses (arXiv:2607.05147): the logits of a place are biased by the token before, so
/// nodes of one level differ, though the block was run once. Weights are borrowed.
class MarkovOutput {
 public:
  MarkovOutput(const BlockWeights& weights, OutputHead& output);

  /// The places of the blocks that children() and confidence() are asked of: at most
  /// OutputHead::kMostRows. Borrowed.
  void set_places(const View& slots);
  /// The likeliest tokens at place slot[i] after token previous[i], for at most
  /// OutputHead::kMostRows of them.
  RowChildren children(std::span<const std::int32_t> slot, std::span<const TokenId> previous,
                       int count, std::span<const DraftPlace> places);
  /// How sure the head is that its choice there will be accepted if all before it were.
  std::vector<float> confidence(std::span<const std::int32_t> slot,
                                std::span<const TokenId> previous);

 private:
  const BlockWeights& weights_;
  OutputHead& output_;
  Backend& backend_;
  View slots_;
  IndexList slot_, previous_;
  Buffer base_, logits_;  // [kMostRows, draft vocabulary]
  Buffer bias_;           // [kMostRows, rank]
  Buffer read_, sure_;    // of confidence: [kMostRows, its columns], [kMostRows, 1]
  std::uint64_t replay_owner_ = new_replay_owner();
};

}  // namespace talon
