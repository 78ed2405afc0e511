#pragma once

#include <span>

#include "draft/head/head_memory.h"
#include "draft/output_head.h"

namespace talon {

/// A sequence that a pass guesses for, and its newest token.
struct BlockRoot {
  HeadState* state = nullptr;
  TokenId token = 0;
};

/// A head that guesses the tokens of several places in one pass.
class SlotNetwork : public PairRunner {
 public:
  virtual int guesses() const = 0;  // places after the root, of one pass
  /// That a pass writes behind the committed pairs of each sequence, for the time of the pass.
  virtual int rows_in_flight() const = 0;
  /// Fills out, [roots * guesses(), H], with what the output matrix reads of each place. REQUIRES:
  /// the committed pairs were run, rows_in_flight() rows are reserved for each root, and all of
  /// them are at most max_rows().
  virtual void guess(std::span<const BlockRoot> roots, KvStore& cache, const View& out) = 0;
  /// On the way from there to the output matrix.
  virtual OutputNorm output_norm() const { return {}; }
};

}  // namespace talon
