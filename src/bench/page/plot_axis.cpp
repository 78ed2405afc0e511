#include "bench/page/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace talon {
namespace {

constexpr int kTicks = 6;  // about

/// 1, 2 or 5 times a power of ten, for about kTicks steps over `span`.
double nice_step(double span) {
  const double rough = span / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

}  // namespace

PlotAxis::PlotAxis(Range range, double first_pixel, double last_pixel)
    : first_pixel_(first_pixel),
      last_pixel_(last_pixel),
      least_(range.least),
      most_(range.most),
      log2_(range.log2) {
  if (log2_) {
    for (double tick = std::exp2(std::floor(std::log2(least_))); tick <= most_ * 1.001; tick *= 2) {
      if (tick >= least_ * 0.999) ticks_.push_back(tick);
    }
    return;
  }
  const double step = nice_step(most_ - least_);
  if (!range.least_pinned) least_ = std::floor(least_ / step + 1e-9) * step;
  if (!range.most_pinned) most_ = std::ceil(most_ / step - 1e-9) * step;
  const double first = std::ceil(least_ / step - 1e-9);
  for (int i = 0; (first + i) * step <= most_ + step * 1e-9; ++i) {
    ticks_.push_back((first + i) * step);
  }
}

double PlotAxis::place(double value) const { return log2_ ? std::log2(value) : value; }

double PlotAxis::pixel(double value) const {
  const double share = (place(value) - place(least_)) / (place(most_) - place(least_));
  return first_pixel_ + share * (last_pixel_ - first_pixel_);
}

bool PlotAxis::contains(double value) const {
  return std::isfinite(value) && value >= least_ && value <= most_;
}

std::string number_text(double value) {
  if (value == 0 || std::abs(value) < 1e-12) return "0";
  const double size = std::abs(value);
  if (size >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

PlotAxis::Range range_of(const std::vector<double>& values) {
  PlotAxis::Range range;
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range.least = any ? std::min(range.least, value) : value;
    range.most = any ? std::max(range.most, value) : value;
    any = true;
  }
  if (range.most - range.least < 1e-9 * std::max(1.0, std::abs(range.most))) {
    range.most += 0.5 * std::max(1.0, std::abs(range.most));
  }
  return range;
}

const char* plot_color(std::size_t index) {
  static constexpr std::array kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                         "#e69f00", "#56b4e9", "#6b4c9a", "#4d4d4d"};
  return kColors[index % kColors.size()];
}

}  // namespace talon
