#pragma once

#include <span>

#include "backend/backend.h"
#include "core/types.h"

namespace talon {

/// The pairs of a text that a row sees.
struct PairWindow {
  int newest = 0;  // 0: all
  int sinks = 0;   // beside them the first
};

/// Rows from `first` on that read vectors instead of the embeddings of their tokens.
struct GivenRows {
  int first = 0;
  View vectors;
};

/// Rows of one pass of a head. Row r pairs the feature of a position i with the embedding of
/// tokens[r], which stands at i + 1; layout.rows[r].position is i.
struct HeadPass {
  std::span<const TokenId> tokens;
  const AttentionLayout* layout = nullptr;
  KvStore* cache = nullptr;  // the same for all passes of a network
  /// The target's features, [rows, taps * hidden size of the target]; or else, with from_target
  /// off, what an earlier pass of the head gave for the parents of the rows, [rows, H].
  View features;
  bool from_target = true;
  View out;  // [rows, H]: the predicted features, fed back to the rows' children
  std::span<const GivenRows> given = {};
};

/// The network of a head that keeps keys and values of committed pairs (head_memory.h).
class PairRunner {
 public:
  virtual ~PairRunner() = default;
  virtual Backend& backend() const = 0;
  virtual int max_rows() const = 0;
  virtual int feature_width() const = 0;  // taps * hidden size of the target
  virtual int hidden() const = 0;         // H
  /// Runs at most max_rows rows. A head that predicts nothing from committed pairs leaves
  /// pass.out as it is.
  virtual void forward(const HeadPass& pass) = 0;
};

}  // namespace talon
