#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "bench/page/page.h"
#include "bench/page/plot.h"
#include "bench/page/plot_axis.h"

namespace talon {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 62, kRight = 20, kBottom = 46, kTop = 34;
constexpr double kLegendRow = 18;
constexpr double kCharacter = 7;  // of the legend's text, about

PlotAxis::Range pinned(PlotAxis::Range range, const std::optional<double>& least,
                       const std::optional<double>& most) {
  if (least) range.least = *least;
  if (most) range.most = *most;
  range.least_pinned = least.has_value();
  range.most_pinned = most.has_value();
  if (!(range.most > range.least)) range.most = range.least + 1;
  return range;
}

/// One drawing on its way to text.
class XyDrawing {
 public:
  explicit XyDrawing(const XyPlot& plot)
      : plot_(plot), top_(kTop + legend_rows() * kLegendRow), x_(x_axis()), y_(y_axis()) {}

  std::string text() {
    put(R"(<svg viewBox="0 0 {} {}" role="img" font-family="system-ui, sans-serif" font-size="12">)",
        kWidth, height());
    put(R"(<text x="{}" y="18" font-size="14" font-weight="600">{}</text>)", kLeft,
        escape_html(plot_.title));
    legend();
    axes();
    for (std::size_t i = 0, color = 0; i < plot_.series.size(); ++i) {
      const XyPlot::Series& series = plot_.series[i];
      if (series.guide) {
        guide(series);
      } else {
        draw(series, series.color.value_or(color++));
      }
    }
    out_ += "</svg>";
    return out_;
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  double height() const { return top_ + (kHeight - kTop); }

  bool has_legend() const {
    int named = 0;
    for (const XyPlot::Series& series : plot_.series) named += !series.guide;
    return named > 1;
  }
  static double legend_width(const XyPlot::Series& series) {
    return 34 + kCharacter * static_cast<double>(series.name.size());
  }
  int legend_rows() const {
    if (!has_legend()) return 0;
    int rows = 1;
    double x = kLeft;
    for (const XyPlot::Series& series : plot_.series) {
      if (series.guide) continue;
      if (x > kLeft && x + legend_width(series) > kWidth) {
        ++rows;
        x = kLeft;
      }
      x += legend_width(series);
    }
    return rows;
  }

  PlotAxis x_axis() const {
    std::vector<double> values;
    for (const XyPlot::Series& series : plot_.series) {
      if (series.guide) continue;
      for (const XyPlot::Point& point : series.points) values.push_back(point.x);
    }
    PlotAxis::Range range = pinned(range_of(values), plot_.x_least, plot_.x_most);
    range.log2 = plot_.log2_x && range.least > 0;
    return {range, kLeft, kWidth - kRight};
  }
  PlotAxis y_axis() const {
    std::vector<double> values;
    for (const XyPlot::Series& series : plot_.series) {
      if (series.guide) continue;
      for (const XyPlot::Point& point : series.points) {
        values.push_back(point.y.value);
        if (point.y.low) values.push_back(*point.y.low);
        if (point.y.high) values.push_back(*point.y.high);
      }
    }
    return {pinned(range_of(values), plot_.y_least, plot_.y_most), height() - kBottom, top_};
  }

  void axes() {
    const double bottom = height() - kBottom;
    for (const double tick : y_.ticks()) {
      const double y = y_.pixel(tick);
      put(R"(<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#ddd"/>)", kLeft,
          kWidth - kRight, y, y);
      put(R"(<text x="{}" y="{:.1f}" text-anchor="end" fill="#444">{}</text>)", kLeft - 7, y + 4,
          number_text(tick));
    }
    for (const double tick : x_.ticks()) {
      const double x = x_.pixel(tick);
      put(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" stroke="#999"/>)", x, x, bottom,
          bottom + 4);
      put(R"(<text x="{:.1f}" y="{}" text-anchor="middle" fill="#444">{}</text>)", x, bottom + 18,
          number_text(tick));
    }
    put(R"(<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="#999"/>)", kLeft, kWidth - kRight, bottom,
        bottom);
    put(R"(<text x="{}" y="{}" text-anchor="middle" fill="#222">{}</text>)",
        (kLeft + kWidth - kRight) / 2, height() - 8, escape_html(plot_.x_label));
    put(R"svg(<text transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle" fill="#222">{}</text>)svg",
        (top_ + bottom) / 2, escape_html(plot_.y_label));
  }

  void legend() {
    if (!has_legend()) return;
    double x = kLeft, y = kTop + 2;
    std::size_t place = 0;
    for (const XyPlot::Series& series : plot_.series) {
      if (series.guide) continue;
      const std::size_t color = series.color.value_or(place++);
      if (x > kLeft && x + legend_width(series) > kWidth) {
        x = kLeft;
        y += kLegendRow;
      }
      if (series.line) {
        put(R"(<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="2"/>)", x, x + 20, y,
            y, plot_color(color));
      }
      if (series.marks) mark(x + 10, y, color);
      put(R"(<text x="{}" y="{}">{}</text>)", x + 25, y + 4, escape_html(series.name));
      x += legend_width(series);
    }
  }

  /// Shapes differ too, for paper without colours.
  void mark(double x, double y, std::size_t index, std::string_view title = {}) {
    const char* color = plot_color(index);
    const std::string note =
        title.empty() ? "" : fmt::format("<title>{}</title>", escape_html(title));
    const auto polygon = [&](std::array<std::array<double, 2>, 4> corners) {
      out_ += "<polygon points=\"";
      for (const auto& [dx, dy] : corners) put("{:.1f},{:.1f} ", x + dx, y + dy);
      put(R"(" fill="{}" fill-opacity="0.75" stroke="{}">{}</polygon>)", color, color, note);
    };
    switch (index % 4) {
      case 0:
        put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.6" fill="{}" fill-opacity="0.75" stroke="{}">{}</circle>)",
            x, y, color, color, note);
        break;
      case 1:
        polygon({{{-3.3, -3.3}, {3.3, -3.3}, {3.3, 3.3}, {-3.3, 3.3}}});
        break;
      case 2:
        polygon({{{0, -4.4}, {4.2, 3.2}, {-4.2, 3.2}, {-4.2, 3.2}}});
        break;
      default:
        polygon({{{0, -4.6}, {4.6, 0}, {0, 4.6}, {-4.6, 0}}});
    }
  }

  bool visible(const XyPlot::Point& point) const {
    return x_.contains(point.x) && y_.contains(point.y.value);
  }

  void draw(const XyPlot::Series& series, std::size_t color) {
    if (series.line)
      polyline(series, fmt::format(R"(stroke="{}" stroke-width="2")", plot_color(color)));
    for (const XyPlot::Point& point : series.points) {
      if (!visible(point)) continue;
      const double x = x_.pixel(point.x), y = y_.pixel(point.y.value);
      if (point.y.low && point.y.high) whisker(x, point.y, plot_color(color));
      if (series.marks) mark(x, y, color, note_of(series, point));
    }
  }

  void whisker(double x, const PlotValue& value, const char* color) {
    const auto clamped = [&](double v) { return y_.pixel(std::clamp(v, y_.least(), y_.most())); };
    put(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x, x,
        clamped(*value.low), clamped(*value.high), color);
  }

  static std::string note_of(const XyPlot::Series& series, const XyPlot::Point& point) {
    std::string text =
        fmt::format("{}: {}, {}", series.name, number_text(point.x), number_text(point.y.value));
    if (point.y.low && point.y.high) {
      text += fmt::format(" [{}, {}]", number_text(*point.y.low), number_text(*point.y.high));
    }
    return point.note.empty() ? text : text + "\n" + point.note;
  }

  void polyline(const XyPlot::Series& series, const std::string& style) {
    out_ += "<polyline points=\"";
    for (const XyPlot::Point& point : series.points) {
      if (visible(point)) put("{:.1f},{:.1f} ", x_.pixel(point.x), y_.pixel(point.y.value));
    }
    put(R"(" fill="none" {}/>)", style);
  }

  void guide(const XyPlot::Series& series) {
    polyline(series, R"(stroke="#888" stroke-dasharray="5 4")");
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point) {
      if (!visible(*point)) continue;
      const double y = std::max(y_.pixel(point->y.value) - 4, top_ + 10);  // below the legend
      put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end" fill="#666" font-size="11">{}</text>)",
          x_.pixel(point->x) - 3, y, escape_html(series.name));
      break;
    }
  }

  const XyPlot& plot_;
  double top_;
  PlotAxis x_, y_;
  std::string out_;
};

}  // namespace

std::string svg_of(const XyPlot& plot) { return XyDrawing(plot).text(); }

}  // namespace talon
