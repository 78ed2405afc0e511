#pragma once

#include <optional>
#include <string>
#include <vector>

namespace talon {

/// Maps values to pixels and knows where ticks belong.
class PlotAxis {
 public:
  /// The axis covers [least, most], widened to whole ticks where `least` or `most` is not pinned.
  struct Range {
    double least = 0, most = 1;
    bool least_pinned = false, most_pinned = false;
    bool log2 = false;  // REQUIRES: least > 0
  };
  PlotAxis(Range range, double first_pixel, double last_pixel);

  double pixel(double value) const;
  bool contains(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  double place(double value) const;

  double first_pixel_, last_pixel_;
  double least_, most_;
  bool log2_;
  std::vector<double> ticks_;
};

/// At most four significant digits, without trailing zeros: 0.25, 1.5, 120, 12000.
std::string number_text(double value);

/// The least and most of `values` that are finite; [0, 1] if there are none, and never empty.
PlotAxis::Range range_of(const std::vector<double>& values);

/// Colour i of a palette that colour-blind readers can tell apart (Okabe and Ito).
const char* plot_color(std::size_t index);

}  // namespace talon
