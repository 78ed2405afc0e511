#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "core/types.h"
#include "draft/coupling/coupling.h"
#include "draft/eagle/head_weights.h"
#include "draft/eagle/tree_growth.h"

namespace talon {

/// Rows of one pass of a head. Row r pairs the feature of a position i with the embedding of
/// tokens[r], which stands at i + 1; layout.rows[r].position is i.
struct HeadPass {
  std::span<const TokenId> tokens;
  const AttentionLayout* layout = nullptr;
  KvStore* cache = nullptr;
  /// The target's features, [rows, taps * hidden size of the target]; or else, with from_target
  /// off, what an earlier pass of the head gave for the parents of the rows, [rows, H].
  View features;
  bool from_target = true;
  View out;  // [rows, H]: the predicted features, fed back to the rows' children
};

/// The one-layer transformer of an EAGLE head. Owns the activations; weights are borrowed.
class HeadNetwork {
 public:
  /// positions: of the cache that the passes will name.
  HeadNetwork(const HeadWeights& weights, const Coupling& coupling, int max_rows, int positions);
  ~HeadNetwork();

  int max_rows() const;
  /// Runs the head on at most max_rows rows.
  void forward(const HeadPass& pass);
  /// The `count` likeliest next tokens after each row of `features`, which are outputs of
  /// forward(). Any number of rows. places: where they stand (OutputHead).
  RowChildren top_children(const View& features, int count, std::span<const DraftPlace> places);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
