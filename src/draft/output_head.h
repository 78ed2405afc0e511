#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "core/types.h"
#include "draft/eagle/tree_growth.h"

namespace talon {

/// An RMSNorm on the way into an OutputHead, if there is a weight.
struct OutputNorm {
  View weight = {};
  float epsilon = 0;
};

/// The output matrix of a draft head: from features to the likeliest next tokens. Owns the logits;
/// weights are borrowed.
class OutputHead {
 public:
  /// target_token: of each row of the matrix; empty: the same. Borrowed.
  OutputHead(Backend& backend, const Weight& matrix, std::span<const TokenId> target_token);

  /// The `count` likeliest next tokens after each row of `features`. Any number of rows.
  RowChildren top_children(const View& features, int count, const OutputNorm& norm = {});

 private:
  Backend& backend_;
  const Weight& matrix_;
  std::span<const TokenId> target_token_;
  Buffer logits_;       // [kMostRows, rows of the matrix]
  Buffer top_;          // of kMostRows rows, as many as have been asked for
  IndexBuffer chosen_;  // likewise
};

}  // namespace talon
