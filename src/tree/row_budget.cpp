#include "tree/row_budget.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace talon {

int best_count(std::span<const double> chances, const std::function<double(int)>& extra_ms,
               double rate) {
  int best = 0;
  double best_gain = 0, tokens = 0;
  for (int count = 1; count <= static_cast<int>(chances.size()); ++count) {
    tokens += chances[static_cast<std::size_t>(count - 1)];
    const double gain = tokens - rate * extra_ms(count);
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = count;
  }
  return best;
}

void RowBudget::begin_round() {
  offers_.clear();
  settled_ = false;
}

void RowBudget::offer(std::span<const double> chances, double margin) {
  expects(!settled_, "offers before the round is settled");
  for (const double chance : chances) offers_.push_back(chance / margin);
}

void RowBudget::settle(const std::function<double(int)>& extra_ms, double rate) {
  if (settled_) return;
  settled_ = true;
  std::sort(offers_.begin(), offers_.end(), std::greater<>());
  const int count = best_count(offers_, extra_ms, rate);
  price_ = std::numeric_limits<double>::infinity();
  ties_left_ = 0;
  if (count == 0) return;
  const auto bought = std::span(offers_).first(static_cast<std::size_t>(count));
  price_ = bought.back();
  ties_left_ = static_cast<int>(std::count(bought.begin(), bought.end(), price_));
}

bool RowBudget::buy(double chance, double margin) {
  expects(settled_, "a budget that is settled");
  const double worth = chance / margin;
  return worth > price_ || (worth == price_ && ties_left_-- > 0);
}

}  // namespace talon
