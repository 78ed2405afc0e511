#include "tree/cost_curve.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

/// A measured stretch of the curve: row counts [first, last] that are believed to cost the same.
struct Block {
  int first;
  int last;
  double ms;
  double weight;
};

/// Pools neighbours whose costs fall with the row count (isotonic regression, pool adjacent
/// violators).
void append_monotone(std::vector<Block>& blocks, Block block) {
  while (!blocks.empty() && blocks.back().ms > block.ms) {
    const Block& before = blocks.back();
    const double weight = before.weight + block.weight;
    block = {before.first, block.last,
             (before.ms * before.weight + block.ms * block.weight) / weight, weight};
    blocks.pop_back();
  }
  blocks.push_back(block);
}

bool is_time(double ms) { return ms > 0 && std::isfinite(ms); }

}  // namespace

CostCurve::CostCurve(int max_rows, double row_share)
    : row_share_(row_share),
      samples_(static_cast<std::size_t>(max_rows)),
      curve_(static_cast<std::size_t>(max_rows)) {
  expects(max_rows >= 1, "room for one row");
  for (std::size_t i = 0; i < curve_.size(); ++i)
    curve_[i] = 1 + row_share_ * static_cast<double>(i);
}

void CostCurve::seed(int rows, double ms) {
  if (rows < 1 || rows > max_rows() || !is_time(ms)) return;
  samples_[static_cast<std::size_t>(rows - 1)].fill(ms);
  seeded_ = true;
  rebuild();
}

double CostCurve::ms(int rows) const {
  expects(rows >= 1, "a cost of rows");
  return pace() * curve_[std::min(static_cast<std::size_t>(rows), curve_.size()) - 1];
}

void CostCurve::observe(int rows, double ms) {
  if (rows < 1 || rows > max_rows() || !is_time(ms)) return;
  if (seeded_) observe_pace(ms, this->ms(rows));
  samples_[static_cast<std::size_t>(rows - 1)].add(ms / pace());
  observed_ = true;
  rebuild();
}

void CostCurve::observe_pace(double ms, double predicted_ms) {
  if (is_time(ms) && is_time(predicted_ms)) pace_.add(ms / predicted_ms * pace());
}

void CostCurve::rebuild() {
  std::vector<Block> blocks;
  for (int rows = 1; rows <= max_rows(); ++rows) {
    const RecentMedian& samples = samples_[static_cast<std::size_t>(rows - 1)];
    if (samples.count() == 0) continue;
    append_monotone(blocks, {rows, rows, samples.value(), static_cast<double>(samples.count())});
  }
  const Block& first = blocks.front();
  const double one_row = first.ms / (1 + row_share_ * (first.first - 1));
  std::size_t next = 0;  // the first block that does not end before `rows`
  for (int rows = 1; rows <= max_rows(); ++rows) {
    while (next < blocks.size() && blocks[next].last < rows) ++next;
    double ms = 0;
    if (next == 0 && rows < first.first) {
      ms = one_row * (1 + row_share_ * (rows - 1));
    } else if (next == blocks.size()) {
      const Block& last = blocks.back();
      ms = last.ms + (rows - last.last) * row_share_ * one_row;
    } else if (rows >= blocks[next].first) {
      ms = blocks[next].ms;
    } else {
      const Block& below = blocks[next - 1];
      const Block& above = blocks[next];
      const double share = static_cast<double>(rows - below.last) / (above.first - below.last);
      ms = below.ms + share * (above.ms - below.ms);
    }
    const auto i = static_cast<std::size_t>(rows - 1);
    curve_[i] = i == 0 ? ms : std::max(ms, curve_[i - 1] + kLeastRowShare * one_row);
  }
}

}  // namespace talon
