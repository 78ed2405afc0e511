#include "engine/forward_rows.h"

#include <cmath>

#include "core/error.h"

namespace talon {

void ForwardRows::begin(const View& logits) {
  logits_ = logits;
  found_all_ = false;
}

std::span<const float> ForwardRows::logits(int row) {
  const auto count = static_cast<std::size_t>(logits_.cols);
  if (backend_.traits().memory_bytes == 0) return {logits_.row(row), count};
  fetched_.resize(count);
  backend_.download(logits_.row_range(row, 1), fetched_);
  return fetched_;
}

TokenId ForwardRows::argmax(int row) {
  const bool waits_cost = backend_.traits().wait_us > 0;
  if (!waits_cost) {
    find_largest(logits_.row_range(row, 1));
  } else if (!found_all_) {
    find_largest(logits_);
    found_all_ = true;
  }
  const std::size_t found = waits_cost ? static_cast<std::size_t>(row) : 0;
  const float logit = values_[found];
  if (!std::isfinite(logit)) {
    fail("choose the next token: expected finite logits, found {}",
         std::isnan(logit) ? "NaN" : "infinity");
  }
  return tokens_[found];
}

/// Two results, one wait.
void ForwardRows::find_largest(const View& rows) {
  if (best_.size() < rows.rows) {
    largest_ = backend_.allocate(rows.rows, 1);
    best_ = backend_.allocate_indices(rows.rows);  // last: it says how many there is room for
  }
  tokens_.resize(static_cast<std::size_t>(rows.rows));
  values_.resize(tokens_.size());
  const Indices best = best_.first(rows.rows);
  const View largest = largest_.rows(rows.rows);
  backend_.argmax(rows, best, largest);
  Fence values = backend_.download_async(largest, values_);
  backend_.download(best, tokens_);
  values.wait();
}

}  // namespace talon
