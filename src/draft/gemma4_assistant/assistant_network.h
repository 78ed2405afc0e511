#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/index_list.h"
#include "core/types.h"
#include "draft/coupling/coupling.h"
#include "draft/gemma4_assistant/assistant_weights.h"
#include "draft/growth/tree_growth.h"
#include "draft/output_head.h"
#include "model/block.h"
#include "model/cache/kv_cache.h"
#include "model/rope.h"

namespace talon {

/// The layers of Gemma 4's assistant, and what its rows become. Owns the activations; weights are
/// borrowed.
class Gemma4AssistantNetwork {
 public:
  /// positions: more than any text that it is given has tokens.
  Gemma4AssistantNetwork(const Gemma4AssistantWeights& weights, const Coupling& coupling,
                         int max_rows, int positions);

  int max_rows() const { return max_rows_; }
  int positions() const { return positions_; }

  /// [rows, hidden size of the target]: where the next forward() reads what its rows have beside
  /// their tokens, the target's feature of the token before the root or states() of their parents.
  View features(int rows) const;
  /// At most max_rows rows. texts: of each row the target's keys and values that it sees, all of
  /// them; it stands right behind those. What all rows became is overwritten.
  void forward(std::span<const TokenId> tokens, std::span<const KvSequence* const> texts);
  /// [rows, hidden size of the target]: what the rows of the last forward() hand to their children.
  View states(int rows) const { return states_.rows(rows); }
  /// The likeliest tokens after the first `rows` rows (OutputHead).
  RowChildren top_children(int rows, int count, std::span<const DraftPlace> places);
  /// The logits after them, in the order of target_token().
  std::vector<float> logits(int rows);
  std::span<const TokenId> target_token() const { return weights_.target_token; }

 private:
  /// What tells rows of one kind of layers where they stand and what they see.
  struct Layouts {
    AttentionLayout layout;
    std::unique_ptr<PreparedLayout> prepared;
  };
  void lay_out(std::span<const KvSequence* const> texts, KvLayers of);
  BlockRows rows_in(const LayerPlan& plan, const KvSequence& text, int positions);
  View logits_of_clusters(int first, int rows);

  const Gemma4AssistantWeights& weights_;
  Backend& backend_;
  int max_rows_, positions_;
  BlockRunner block_;
  RopeTable rope_;
  std::optional<RopeTable> local_rope_;
  Buffer pair_;      // [max_rows, 2 * hidden size of the target]: embedding and feature
  Buffer residual_;  // [max_rows, H]
  Buffer normed_;    // [max_rows, H]: what output and states are made of
  Buffer states_;    // [max_rows, hidden size of the target]
  Layouts far_, near_;
  IndexList tokens_;
  OutputHead output_;
  // Of kClusterRows rows, where there are clusters: the logits, cluster by cluster, then one of
  // tokens that are never drawn; what is left of them; scores and numbers of the likeliest.
  Buffer all_, left_, scores_, best_;
  IndexBuffer chosen_;
  IndexList clusters_;
};

}  // namespace talon
