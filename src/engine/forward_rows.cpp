#include "engine/forward_rows.h"

#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

/// The token, if its row can be sampled.
TokenId vouched(TokenId token, float logit) {
  if (std::isfinite(logit)) return token;
  fail("choose the next token: expected finite logits, found {}",
       std::isnan(logit) ? "NaN" : "infinity");
}

}  // namespace

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
  if (backend_.traits().wait_us == 0) {
    find_largest(logits_.row_range(row, 1));
    return vouched(tokens_.front(), values_.front());
  }
  if (!found_all_) find_largest(logits_);
  found_all_ = true;
  const auto found = static_cast<std::size_t>(row);
  return vouched(tokens_[found], values_[found]);
}

TokenId ForwardRows::race(int row, const RaceDraw& draw) {
  make_room(1);
  backend_.race(logits_.row_range(row, 1), {&draw, 1}, best_.first(1), largest_.rows(1));
  TokenId winner = 0;
  float largest = 0;
  fetch({&winner, 1}, {&largest, 1});
  return vouched(winner, largest);
}

void ForwardRows::find_largest(const View& rows) {
  make_room(rows.rows);
  tokens_.resize(static_cast<std::size_t>(rows.rows));
  values_.resize(tokens_.size());
  backend_.argmax(rows, best_.first(rows.rows), largest_.rows(rows.rows));
  fetch(tokens_, values_);
}

void ForwardRows::make_room(int rows) {
  if (best_.size() >= rows) return;
  largest_ = backend_.allocate(rows, 1);
  best_ = backend_.allocate_indices(rows);  // last: it says how many there is room for
}

/// Two results, one wait.
void ForwardRows::fetch(std::span<TokenId> tokens, std::span<float> values) {
  const auto rows = static_cast<int>(tokens.size());
  Fence fence = backend_.download_async(largest_.rows(rows), values);
  backend_.download(best_.first(rows), tokens);
  fence.wait();
}

}  // namespace talon
