#pragma once

#include <vector>

#include "backend/backend.h"
#include "verify/target_rows.h"

namespace talon {

/// Memory of ForwardRows, kept from round to round.
struct RowScratch {
  explicit RowScratch(Backend& backend) : best(backend.allocate_indices(0)) {}

  std::vector<float> logits;  // of one row that was fetched
  // The most likely tokens of the rows that were asked about last, and their logits.
  IndexBuffer best;
  Buffer largest;
  std::vector<TokenId> tokens;
  std::vector<float> values;
};

/// Rows of a forward that has been waited for. Where the backend's memory is the host's, logits are
/// read in place. Where a wait costs nothing each row is asked about when it is asked for; else the
/// first question about a most likely token is put for all rows at once.
class ForwardRows : public TargetRows {
 public:
  /// logits: [nodes of the tree, vocabulary]. Borrows backend and scratch.
  ForwardRows(Backend& backend, const View& logits, RowScratch& scratch)
      : backend_(backend), logits_(logits), scratch_(scratch) {}

  std::span<const float> logits(NodeId node) override;
  TokenId argmax(NodeId node) override;

 private:
  void find_largest(const View& rows);

  Backend& backend_;
  View logits_;
  RowScratch& scratch_;
  bool found_all_ = false;
};

}  // namespace talon
