#include "draft/coupling/penalty_rows.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace talon {

void PenaltyRows::change(const View& logits, const TextPenalties& penalties, double scale) {
  expects(logits.cols == vocabulary_, "a logit for each token of the draft list");
  find(penalties);
  if (known_.empty()) return;
  std::vector<std::int32_t> list;
  for (const Known& known : known_) list.push_back(known.place);
  const Indices places = places_.put(list);
  const int size = logits.rows * places.count;
  if (moved_.view().cols < size)
    moved_ = backend_.allocate(1, std::max(size, 2 * moved_.view().cols));
  const View moved = moved_.view().col_range(0, size);

  // Rows as columns, of which gather_rows() and scatter_rows() take single numbers.
  const auto logits_of = [&](int row) { return View{logits.row(row), vocabulary_, 1, 1}; };
  const auto moved_of = [&](int row) {
    const View part = moved.col_range(row * places.count, places.count);
    return View{part.data, part.cols, 1, 1};
  };
  for (int row = 0; row < logits.rows; ++row)
    backend_.gather_rows(logits_of(row), places, moved_of(row));
  values_.resize(static_cast<std::size_t>(size));
  backend_.download(moved, values_);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::size_t seen = known_[i % known_.size()].seen;
    values_[i] = penalties.penalized(values_[i], penalties.all()[seen], scale);
  }
  backend_.upload(values_, moved);
  for (int row = 0; row < logits.rows; ++row)
    backend_.scatter_rows(moved_of(row), places, logits_of(row));
}

/// Which tokens of the list the text has.
void PenaltyRows::find(const TextPenalties& penalties) {
  const auto token_at = [&](std::int32_t place) {
    return target_token_[static_cast<std::size_t>(place)];
  };
  if (by_token_.size() != target_token_.size()) {
    by_token_.resize(target_token_.size());
    std::iota(by_token_.begin(), by_token_.end(), 0);
    std::ranges::stable_sort(by_token_, {}, token_at);
  }
  known_.clear();
  for (std::size_t i = 0; i < penalties.all().size(); ++i) {
    const TokenId token = penalties.all()[i].token;
    if (target_token_.empty()) {
      if (token < vocabulary_) known_.push_back({token, i});
      continue;
    }
    for (const std::int32_t place : std::ranges::equal_range(by_token_, token, {}, token_at))
      known_.push_back({place, i});
  }
}

}  // namespace talon
