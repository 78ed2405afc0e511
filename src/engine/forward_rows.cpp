#include "engine/forward_rows.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace talon {

/// The token, if its row can be sampled.
TokenId ForwardRows::Found::vouched(std::size_t row) const {
  const float logit = logits[row];
  if (std::isfinite(logit)) return tokens[row];
  fail("choose the next token: expected finite logits, found {}",
       std::isnan(logit) ? "NaN" : "infinity");
}

void ForwardRows::begin(const View& logits, Foresee foresee) {
  logits_ = logits;
  foresee_ = std::move(foresee);
  has_likeliest_ = has_winners_ = false;
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
    return likeliest_.vouched(0);
  }
  if (!has_likeliest_) find_largest(logits_);
  has_likeliest_ = true;
  return likeliest_.vouched(static_cast<std::size_t>(row));
}

TokenId ForwardRows::race(int row, const RaceDraw& draw) {
  const auto place = static_cast<std::size_t>(row);
  if (backend_.traits().wait_us > 0 && !has_winners_) {
    draws_ = foresee_();
    expects(draws_.size() == static_cast<std::size_t>(logits_.rows), "a race for each row");
    find_winners(logits_, draws_, winners_);
    has_winners_ = true;
  }
  if (has_winners_ && draws_[place] == draw) return winners_.vouched(place);
  find_winners(logits_.row_range(row, 1), {&draw, 1}, alone_);
  return alone_.vouched(0);
}

void ForwardRows::find_largest(const View& rows) {
  make_room(rows.rows);
  backend_.argmax(rows, best_.first(rows.rows), largest_.rows(rows.rows));
  fetch(rows.rows, likeliest_);
}

void ForwardRows::find_winners(const View& rows, std::span<const RaceDraw> draws, Found& winners) {
  make_room(rows.rows);
  backend_.race(rows, draws, best_.first(rows.rows), largest_.rows(rows.rows));
  fetch(rows.rows, winners);
}

void ForwardRows::make_room(int rows) {
  if (best_.size() >= rows) return;
  largest_ = backend_.allocate(rows, 1);
  best_ = backend_.allocate_indices(rows);  // last: it says how many there is room for
}

/// Two results, one wait.
void ForwardRows::fetch(int rows, Found& found) {
  found.tokens.resize(static_cast<std::size_t>(rows));
  found.logits.resize(static_cast<std::size_t>(rows));
  Fence fence = backend_.download_async(largest_.rows(rows), found.logits);
  backend_.download(best_.first(rows), found.tokens);
  fence.wait();
}

}  // namespace talon
