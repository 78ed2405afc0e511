#pragma once

#include <span>
#include <vector>

#include "backend/index_list.h"
#include "draft/block/block_weights.h"
#include "draft/output_head.h"

namespace talon {

/// DSpark's guesses (arXiv:2607.05147): the logits of a place are biased by the token before, so
/// nodes of one level differ, though the block was run once. With y the vector of the place, w the
/// token's row of `previous`, G or J the matrix `joint` with its bias, and s the state of the node
/// above, 0 at the root, logits += next * b:
///
///     vanilla:  b = w
///     gated:    b = sigmoid(G [y; w]) * w
///     rnn:      [g; c; o] = J [s; w; y],  b = tanh(o),
///               state of the node = sigmoid(g) * s + (1 - sigmoid(g)) * tanh(c)
///
/// Weights are borrowed.
class MarkovOutput {
 public:
  MarkovOutput(const BlockWeights& weights, OutputHead& output);

  static constexpr std::int32_t kNoRow = -1;  // above the root

  /// The places of the blocks that children() and confidence() are asked of: at most
  /// OutputHead::kMostRows. Borrowed.
  void set_places(const View& slots);
  /// The likeliest tokens at place slot[i] after token previous[i], for at most
  /// OutputHead::kMostRows of them. above[i]: the row that the call before had for the node above
  /// that token, or kNoRow; an rnn goes on from its state. States of the last call alone are kept.
  RowChildren children(std::span<const std::int32_t> slot, std::span<const TokenId> previous,
                       std::span<const std::int32_t> above, int count,
                       std::span<const DraftPlace> places);
  /// How sure the head is that its choice there will be accepted if all before it were.
  std::vector<float> confidence(std::span<const std::int32_t> slot,
                                std::span<const TokenId> previous);

 private:
  Indices place_states(std::span<const std::int32_t> above);
  View place_vectors(int rows) const;
  void add_vanilla(const Indices& tokens, const View& logits);
  void add_gated(const Indices& tokens, const View& logits);
  void add_recurrent(const Indices& tokens, const Indices& states, const View& logits);
  void add_product(const View& input, InputTransform transform, const View& logits);

  const BlockWeights& weights_;
  OutputHead& output_;
  Backend& backend_;
  MarkovKind kind_;
  int rank_;
  View slots_;
  IndexList slot_, previous_, above_;
  Buffer base_, logits_;  // [kMostRows, draft vocabulary]
  Buffer bias_;           // [kMostRows, rank]; gated: [kMostRows, 2 * rank], gates and rows
  Buffer joined_;         // [kMostRows, columns of `joint`]
  // rnn: [kMostRows, 3 * rank], [kMostRows, rank] and [1 + kMostRows, rank], of which the first row
  // is the state above the root.
  Buffer mixed_, gates_, states_;
  Buffer read_, sure_;  // of confidence: [kMostRows, its columns], [kMostRows, 1]
  std::uint64_t replay_owner_ = new_replay_owner();
};

}  // namespace talon
