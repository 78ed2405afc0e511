#include "engine/forward_rows.h"

#include <cmath>

#include "core/error.h"

namespace talon {

std::span<const float> ForwardRows::logits(NodeId node) {
  scratch_.logits.resize(static_cast<std::size_t>(logits_.cols));
  backend_.download(logits_.row_range(node, 1), scratch_.logits);
  return scratch_.logits;
}

TokenId ForwardRows::argmax(NodeId node) {
  const Indices best = scratch_.best.first(1);
  backend_.argmax(logits_.row_range(node, 1), best, scratch_.largest.view());
  float logit = 0;
  Fence found = backend_.download_async(scratch_.largest.view(), std::span(&logit, 1));
  TokenId token = 0;
  backend_.download(best, std::span(&token, 1));
  found.wait();
  if (!std::isfinite(logit)) {
    fail("choose the next token: expected finite logits, found {}",
         std::isnan(logit) ? "NaN" : "infinity");
  }
  return token;
}

}  // namespace talon
