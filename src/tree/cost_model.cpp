#include "tree/cost_model.h"

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

double relative_prior(int rows) { return 1 + CostModel::kPriorRowShare * (rows - 1); }

}  // namespace

CostModel::CostModel(int max_rows)
    : samples_(static_cast<std::size_t>(max_rows)), curve_(static_cast<std::size_t>(max_rows)) {
  expects(max_rows >= 1, "room for one row");
  for (int rows = 1; rows <= max_rows; ++rows) {
    curve_[static_cast<std::size_t>(rows - 1)] = relative_prior(rows);
  }
}

double CostModel::check_ms(int rows) const {
  expects(rows >= 1, "a check has rows");
  return curve_[std::min(static_cast<std::size_t>(rows), curve_.size()) - 1];
}

void CostModel::observe(int rows, double ms) {
  if (rows < 1 || rows > static_cast<int>(samples_.size()) || !(ms > 0) || !std::isfinite(ms))
    return;
  Samples& samples = samples_[static_cast<std::size_t>(rows - 1)];
  samples.ms[static_cast<std::size_t>(samples.seen++ % kMemory)] = ms;
  const int count = std::min(samples.seen, kMemory);
  std::array<double, kMemory> sorted = samples.ms;
  const auto middle = sorted.begin() + (count - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + count);
  samples.median = *middle;
  rebuild();
}

void CostModel::rebuild() {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const Samples& samples = samples_[i];
    if (samples.seen == 0) continue;
    const int rows = static_cast<int>(i) + 1;
    append_monotone(
        blocks, {rows, rows, samples.median, static_cast<double>(std::min(samples.seen, kMemory))});
  }
  const Block& first = blocks.front();
  const double one_row = first.ms / relative_prior(first.first);
  std::size_t next = 0;  // the first block that does not end before `rows`
  for (int rows = 1; rows <= static_cast<int>(curve_.size()); ++rows) {
    while (next < blocks.size() && blocks[next].last < rows) ++next;
    double ms = 0;
    if (next == 0 && rows < first.first) {
      ms = one_row * relative_prior(rows);
    } else if (next == blocks.size()) {
      const Block& last = blocks.back();
      ms = last.ms + (rows - last.last) * kPriorRowShare * one_row;
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
