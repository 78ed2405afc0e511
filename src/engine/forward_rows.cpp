#include "engine/forward_rows.h"

#include <cmath>

#include "core/error.h"

namespace talon {

std::span<const float> ForwardRows::logits(NodeId node) {
  scratch_.resize(static_cast<std::size_t>(logits_.cols));
  backend_.download(logits_.row_range(node, 1), scratch_);
  return scratch_;
}

TokenId ForwardRows::argmax(NodeId node) {
  const View row = logits_.row_range(node, 1);
  TokenId token = 0;
  backend_.argmax(row, std::span(&token, 1));
  float logit = 0;
  backend_.download(row.col_range(token, 1), std::span(&logit, 1));
  if (!std::isfinite(logit)) {
    fail("choose the next token: expected finite logits, found {}",
         std::isnan(logit) ? "NaN" : "infinity");
  }
  return token;
}

}  // namespace talon
