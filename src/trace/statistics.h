#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace talon {

/// What repeats of one measurement say. All zero for no values.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> values);

/// To three digits behind the point: what a result file keeps of a measurement.
double rounded(double value);

struct Interval {
  double low = 0;
  double high = 0;
};

struct BootstrapSettings {
  int resamples = 2000;
  double confidence = 0.95;
  std::uint64_t seed = 1;  // the same questions give the same interval
};

/// Percentile bootstrap: the interval that holds `confidence` of `statistic` over resamples of
/// `units` units with replacement. `statistic` gets the units drawn, as indices, and looks up
/// whatever belongs to a unit: with the two methods' speeds on a question behind one index, the
/// comparison is paired. Resamples whose statistic is not finite are left out; [NaN, NaN] if none
/// is left or there are no units.
Interval bootstrap(std::size_t units,
                   const std::function<double(std::span<const std::size_t>)>& statistic,
                   const BootstrapSettings& settings = {});

}  // namespace talon
