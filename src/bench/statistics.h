#pragma once

#include <vector>

namespace talon {

/// What repeats of one measurement say. All zero for no values.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace talon
