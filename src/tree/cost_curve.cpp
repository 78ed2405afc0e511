#include "tree/cost_curve.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

/// How far off the curve one measurement may lie: while the machine changes its pace, the shape of
/// the curve should hardly follow.
constexpr double kShapeStep = 1.06;
/// How much each measurement is drawn to the seeds, so that an error that all of them share (their
/// median differs a little from what the pace takes for the middle) cannot add up without end.
constexpr double kSeedPull = 0.05;
/// Rounds without a measurement of the anchor after which others tell the pace.
constexpr int kAnchorLasts = 2;
/// Of fewer rows a pass waits for the weights, and does not say what many rows take.
constexpr int kManyRows = 10;

bool is_time(double ms) { return ms > 0 && std::isfinite(ms); }

}  // namespace

CostCurve::CostCurve(int max_rows, double row_share)
    : row_share_(row_share),
      samples_(static_cast<std::size_t>(max_rows)),
      curve_(static_cast<std::size_t>(max_rows)) {
  blocks_.reserve(curve_.size());
  expects(max_rows >= 1, "room for one row");
  for (std::size_t i = 0; i < curve_.size(); ++i)
    curve_[i] = 1 + row_share_ * static_cast<double>(i);
}

void CostCurve::seed(int rows, double ms) {
  if (rows < 1 || rows > max_rows() || !is_time(ms)) return;
  samples_[static_cast<std::size_t>(rows - 1)].fill(ms);
  anchor_ = anchor_ == 0 ? rows : std::min(anchor_, rows);
  rebuild();
  if (blocks_.size() > 1 && blocks_.back().last >= kManyRows) {
    const Block& before = blocks_[blocks_.size() - 2];
    const Block& last = blocks_.back();
    seeded_step_ = (last.ms - before.ms) / (last.last - before.last);
    rebuild();
  }
  seeds_ = curve_;
  forget_pace();
}

void CostCurve::forget_pace() {
  pace_ = {};
  if (is_seeded()) pace_.add(1);
}

double CostCurve::ms(int rows) const {
  expects(rows >= 1, "a cost of rows");
  return pace() * curve_[std::min(static_cast<std::size_t>(rows), curve_.size()) - 1];
}

void CostCurve::observe(int rows, double ms) {
  if (rows < 1 || rows > max_rows() || !is_time(ms)) return;
  const auto i = static_cast<std::size_t>(rows - 1);
  double at_pace = ms / pace();
  if (is_seeded()) {
    since_anchor_ = rows == anchor_ ? 0 : since_anchor_ + 1;
    if (since_anchor_ == 0 || since_anchor_ > kAnchorLasts) observe_pace(ms, this->ms(rows));
    if (rows == anchor_) return;
    at_pace = std::clamp(ms / pace(), curve_[i] / kShapeStep, curve_[i] * kShapeStep);
    at_pace *= std::pow(seeds_[i] / curve_[i], kSeedPull);
  }
  samples_[i].add(at_pace);
  observed_ = true;
  rebuild();
}

void CostCurve::observe_pace(double ms, double predicted_ms) {
  if (is_time(ms) && is_time(predicted_ms)) pace_.add(ms / predicted_ms * pace());
}

/// Pools neighbours whose costs fall with the row count (isotonic regression, pool adjacent
/// violators).
void CostCurve::append_monotone(Block block) {
  while (!blocks_.empty() && blocks_.back().ms > block.ms) {
    const Block& before = blocks_.back();
    const double weight = before.weight + block.weight;
    block = {before.first, block.last,
             (before.ms * before.weight + block.ms * block.weight) / weight, weight};
    blocks_.pop_back();
  }
  blocks_.push_back(block);
}

void CostCurve::rebuild() {
  blocks_.clear();
  for (int rows = 1; rows <= max_rows(); ++rows) {
    const RecentMedian& samples = samples_[static_cast<std::size_t>(rows - 1)];
    if (samples.count() == 0) continue;
    append_monotone({rows, rows, samples.value(), static_cast<double>(samples.count())});
  }
  const Block& first = blocks_.front();
  const double one_row = first.ms / (1 + row_share_ * (first.first - 1));
  std::size_t next = 0;  // the first block that does not end before `rows`
  for (int rows = 1; rows <= max_rows(); ++rows) {
    while (next < blocks_.size() && blocks_[next].last < rows) ++next;
    double ms = 0;
    if (next == 0 && rows < first.first) {
      ms = one_row * (1 + row_share_ * (rows - 1));
    } else if (next == blocks_.size()) {
      const Block& last = blocks_.back();
      ms = last.ms + (rows - last.last) * seeded_step_.value_or(row_share_ * one_row);
    } else if (rows >= blocks_[next].first) {
      ms = blocks_[next].ms;
    } else {
      const Block& below = blocks_[next - 1];
      const Block& above = blocks_[next];
      const double share = static_cast<double>(rows - below.last) / (above.first - below.last);
      ms = below.ms + share * (above.ms - below.ms);
    }
    const auto i = static_cast<std::size_t>(rows - 1);
    curve_[i] = i == 0 ? ms : std::max(ms, curve_[i - 1] + kLeastRowShare * one_row);
  }
}

}  // namespace talon
