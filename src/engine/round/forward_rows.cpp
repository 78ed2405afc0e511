#include "engine/round/forward_rows.h"

#include <algorithm>
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

void ForwardRows::begin(const View& logits, Foresight foresight) {
  logits_ = logits;
  foresight_ = std::move(foresight);
  has_likeliest_ = has_winners_ = false;
  fetched_rows_ = 0;
  place_.assign(static_cast<std::size_t>(logits.rows), -1);
}

std::span<const float> ForwardRows::logits(int row) {
  const auto width = static_cast<std::size_t>(logits_.cols);
  const BackendTraits traits = backend_.traits();
  if (traits.memory_bytes == 0) return {logits_.row(row), width};
  const auto place_of = [this](int any) -> int& { return place_[static_cast<std::size_t>(any)]; };
  if (place_of(row) < 0) {
    std::vector<int> rows;
    if (traits.wait_us > 0) rows = foresight_.reads();
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
    std::erase_if(rows, [&](int other) { return place_of(other) >= 0; });
    fetch_logits(rows);
    for (const int fetched : rows) place_of(fetched) = static_cast<int>(fetched_rows_++);
  }
  return std::span(fetched_).subspan(static_cast<std::size_t>(place_of(row)) * width, width);
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
    draws_ = foresight_.races();
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

/// Behind those that were fetched before: neighbours together, all in one wait.
void ForwardRows::fetch_logits(std::span<const int> rows) {
  const auto width = static_cast<std::size_t>(logits_.cols);
  fetched_.resize(std::max(fetched_.size(), (fetched_rows_ + rows.size()) * width));
  std::vector<Fence> fences;
  for (std::size_t begin = 0, end; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
    const View run = logits_.row_range(rows[begin], static_cast<int>(end - begin));
    const auto to =
        std::span(fetched_).subspan((fetched_rows_ + begin) * width, (end - begin) * width);
    fences.push_back(backend_.download_async(run, to));
  }
  wait_for_all(fences);
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
