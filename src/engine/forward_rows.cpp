#include "engine/forward_rows.h"

#include <cmath>

#include "core/error.h"

namespace talon {

std::span<const float> ForwardRows::logits(NodeId node) {
  const auto count = static_cast<std::size_t>(logits_.cols);
  if (backend_.traits().memory_bytes == 0) return {logits_.row(node), count};
  scratch_.logits.resize(count);
  backend_.download(logits_.row_range(node, 1), scratch_.logits);
  return scratch_.logits;
}

TokenId ForwardRows::argmax(NodeId node) {
  const bool waits_cost = backend_.traits().wait_us > 0;
  if (!waits_cost) {
    find_largest(logits_.row_range(node, 1));
  } else if (!found_all_) {
    find_largest(logits_);
    found_all_ = true;
  }
  const std::size_t row = waits_cost ? static_cast<std::size_t>(node) : 0;
  const float logit = scratch_.values[row];
  if (!std::isfinite(logit)) {
    fail("choose the next token: expected finite logits, found {}",
         std::isnan(logit) ? "NaN" : "infinity");
  }
  return scratch_.tokens[row];
}

/// Two results, one wait.
void ForwardRows::find_largest(const View& rows) {
  RowScratch& s = scratch_;
  if (s.best.size() < rows.rows) {
    s.largest = backend_.allocate(rows.rows, 1);
    s.best = backend_.allocate_indices(rows.rows);  // last: it says how many there is room for
  }
  s.tokens.resize(static_cast<std::size_t>(rows.rows));
  s.values.resize(s.tokens.size());
  const Indices best = s.best.first(rows.rows);
  const View largest = s.largest.rows(rows.rows);
  backend_.argmax(rows, best, largest);
  Fence values = backend_.download_async(largest, s.values);
  backend_.download(best, s.tokens);
  values.wait();
}

}  // namespace talon
