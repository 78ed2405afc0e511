#include "tree/policies/throughput/level_forecast.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

constexpr double kMostPromised = 32;  // then the sums are halved: old rounds fade
constexpr double kPriorWeight = 4;
constexpr double kShapeWeight = 0.1;  // of a new level in the running shape, later on
constexpr double kShapePrior = 2;     // times seen that a level's first shape, or before it was
                                      // seen the one of the level above, is worth

}  // namespace

LevelForecast::Level::Level() : shape{0.5, 0.12, 0.07, 0.05, 0.03, 0.02, 0.02, 0.01, 0.01, 0.01} {}

double LevelForecast::Level::scale() const {
  return (kPriorWeight + right) / (kPriorWeight + promised);
}

void LevelForecast::begin_round() {
  level_ = 0;
  count_ = 1;
  chance_[0] = 1;
  expanded_ = 1;
}

void LevelForecast::see(std::span<const float> path_log_p) {
  ++level_;
  Level& level = at(level_);
  count_ = std::min(kWidth, static_cast<int>(path_log_p.size()));
  double reach = 0;
  for (int j = 0; j < kWidth; ++j) {
    const auto i = static_cast<std::size_t>(j);
    chance_[i] = j < count_ ? std::exp(static_cast<double>(path_log_p[i])) : 0;
    reach += chance_[i];
    const double weight = std::max(kShapeWeight, 1 / (kShapePrior + level.seen));
    if (expanded_ > 0) level.shape[i] += weight * (chance_[i] / expanded_ - level.shape[i]);
  }
  ++level.seen;
  if (level_ <= kLevels) promised_[static_cast<std::size_t>(level_)] = std::min(reach, 1.0);
}

double LevelForecast::reach(int count) const {
  double sum = 0;
  for (int j = 0; j < std::min(count, count_); ++j) sum += chance_[static_cast<std::size_t>(j)];
  return std::min(1.0, sum * (level_ > 0 ? at(level_).scale() : 1));
}

double LevelForecast::gain_of_next(int count, double row_price) const {
  // Corrected by the next level's record: how far the text follows that level, whatever comes
  // between.
  double expanded = 0;
  for (int j = 0; j < std::min(count, count_); ++j)
    expanded += chance_[static_cast<std::size_t>(j)];
  const Level& next = at(level_ + 1);
  const double scale = std::min(next.scale(), 1 / std::max(expanded, 1e-9));
  const Level& newest = at(std::max(1, level_));
  const double known = next.seen / (kShapePrior + next.seen);
  double gain = 0;
  for (std::size_t j = 0; j < next.shape.size(); ++j) {
    const double share = known * next.shape[j] + (1 - known) * newest.shape[j];
    gain += std::max(0.0, expanded * share * scale - row_price);
  }
  return gain;
}

void LevelForecast::expand(int count) {
  expanded_ = 0;
  for (int j = 0; j < std::min(count, count_); ++j)
    expanded_ += chance_[static_cast<std::size_t>(j)];
}

void LevelForecast::learn(int matched, bool broke) {
  for (int level = 1; level <= std::min(level_, kLevels); ++level) {
    if (level > matched && !broke) break;
    Level& record = at(level);
    record.promised += promised_[static_cast<std::size_t>(level)];
    record.right += level <= matched ? 1 : 0;
    if (record.promised < kMostPromised) continue;
    record.promised /= 2;
    record.right /= 2;
  }
}

}  // namespace talon
