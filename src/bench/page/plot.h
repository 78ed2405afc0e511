#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace talon {

/// A value with what its repeats or its bootstrap say; low and high are absent for a bare number.
struct PlotValue {
  double value = 0;
  std::optional<double> low = {};
  std::optional<double> high = {};
};

/// Points in a plane: curves, scatters or both.
struct XyPlot {
  struct Point {
    double x = 0;
    PlotValue y;
    std::string note = {};  // shown while the pointer rests on it
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
    bool line = true;                       // joins the points in the order given
    bool marks = true;                      // draws each point
    std::optional<std::size_t> color = {};  // of the palette, and the shape; by default its place
    bool guide = false;  // a thin dashed line without marks, named at its end and not in the legend
  };
  std::string title;
  std::string x_label, y_label;
  std::vector<Series> series = {};
  bool log2_x = false;                              // ticks at powers of two
  std::optional<double> x_least = {}, x_most = {};  // of the axes; chosen from the points otherwise
  std::optional<double> y_least = {}, y_most = {};
};

/// Horizontal bars: one band per category, in it one bar per series, or one bar of stacked pieces.
struct BarChart {
  struct Series {
    std::string name;
    std::vector<std::optional<PlotValue>> values;  // per category; nothing: no bar
    std::optional<std::size_t> color = {};         // of the palette; by default its place
  };
  std::string title;
  std::string value_label;
  std::vector<std::string> categories = {};
  std::vector<Series> series = {};
  bool stacked = false;
  std::optional<double> reference = {};  // a line across, such as the 1 of a speed-up
};

/// A drawing as an <svg> element that needs nothing else: no script, no font, no style sheet.
/// Values that are not finite are left out. Each mark carries its numbers as a <title>.
std::string svg_of(const XyPlot& plot);
std::string svg_of(const BarChart& chart);

}  // namespace talon
