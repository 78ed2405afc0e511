#include "trace/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace talon {
namespace {

/// Linear interpolation between the sorted values around share `p` of them.
double quantile(const std::vector<double>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), values.front(), values.back()};
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

Interval bootstrap(std::size_t units,
                   const std::function<double(std::span<const std::size_t>)>& statistic,
                   const BootstrapSettings& settings) {
  std::mt19937_64 random(settings.seed);
  std::vector<std::size_t> drawn(units);
  std::vector<double> values;
  for (int i = 0; i < settings.resamples && units > 0; ++i) {
    for (std::size_t& unit : drawn) unit = random() % units;
    const double value = statistic(drawn);
    if (std::isfinite(value)) values.push_back(value);
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kNone, kNone};
  std::sort(values.begin(), values.end());
  const double tail = (1 - settings.confidence) / 2;
  return {quantile(values, tail), quantile(values, 1 - tail)};
}

}  // namespace talon
