#pragma once

#include <vector>

#include "backend/backend.h"
#include "verify/target_rows.h"

namespace talon {

/// Rows of a forward, fetched when they are asked for: cheapest where the backend's memory is the
/// host's.
class ForwardRows : public TargetRows {
 public:
  /// logits: [nodes of the tree, vocabulary]. Borrows the backend, and `scratch` for a row.
  ForwardRows(Backend& backend, const View& logits, std::vector<float>& scratch)
      : backend_(backend), logits_(logits), scratch_(scratch) {}

  std::span<const float> logits(NodeId node) override;
  TokenId argmax(NodeId node) override;

 private:
  Backend& backend_;
  View logits_;
  std::vector<float>& scratch_;
};

}  // namespace talon
