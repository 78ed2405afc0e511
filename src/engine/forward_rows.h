#pragma once

#include <vector>

#include "backend/backend.h"
#include "verify/target_rows.h"

namespace talon {

/// Memory for one row, kept from round to round.
struct RowScratch {
  explicit RowScratch(Backend& backend)
      : best(backend.allocate_indices(1)), largest(backend.allocate(1, 1)) {}

  std::vector<float> logits;
  IndexBuffer best;  // its most likely token
  Buffer largest;    // and that token's logit
};

/// Rows of a forward, fetched when they are asked for: cheapest where the backend's memory is the
/// host's.
class ForwardRows : public TargetRows {
 public:
  /// logits: [nodes of the tree, vocabulary]. Borrows backend and scratch.
  ForwardRows(Backend& backend, const View& logits, RowScratch& scratch)
      : backend_(backend), logits_(logits), scratch_(scratch) {}

  std::span<const float> logits(NodeId node) override;
  TokenId argmax(NodeId node) override;

 private:
  Backend& backend_;
  View logits_;
  RowScratch& scratch_;
};

}  // namespace talon
