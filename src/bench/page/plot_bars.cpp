#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bench/page/page.h"
#include "bench/page/plot.h"
#include "bench/page/plot_axis.h"

namespace talon {
namespace {

constexpr double kWidth = 720;
constexpr double kRight = 56;  // room for the value behind a bar
constexpr double kTop = 34, kBottom = 44, kLegendRow = 18;
constexpr double kBar = 13, kGap = 10;
constexpr double kCharacter = 7;
constexpr double kMostLabel = 250;

/// One drawing on its way to text.
class BarDrawing {
 public:
  explicit BarDrawing(const BarChart& chart)
      : chart_(chart),
        left_(label_width()),
        top_(kTop + legend_rows() * kLegendRow),
        axis_(value_axis()) {}

  std::string text() {
    put(R"(<svg viewBox="0 0 {} {}" role="img" font-family="system-ui, sans-serif" font-size="12">)",
        kWidth, height());
    put(R"(<text x="8" y="18" font-size="14" font-weight="600">{}</text>)",
        escape_html(chart_.title));
    legend();
    axis();
    for (std::size_t category = 0; category < chart_.categories.size(); ++category) band(category);
    reference();
    out_ += "</svg>";
    return out_;
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  double band_height() const {
    return kGap + kBar * (chart_.stacked ? 1.4 : static_cast<double>(chart_.series.size()));
  }
  double bottom() const {
    return top_ + band_height() * static_cast<double>(chart_.categories.size()) + kGap / 2;
  }
  double height() const { return bottom() + kBottom; }

  double label_width() const {
    std::size_t longest = 0;
    for (const std::string& name : chart_.categories) longest = std::max(longest, name.size());
    return std::min(kMostLabel, 22 + kCharacter * static_cast<double>(longest));
  }

  /// What makes a name fit that is longer than its room.
  std::string squeeze(const std::string& name) const {
    const double room = left_ - 16;
    if (kCharacter * static_cast<double>(name.size()) <= room) return "";
    return fmt::format(R"( textLength="{:.0f}" lengthAdjust="spacingAndGlyphs")", room);
  }

  const char* color_of(std::size_t series) const {
    return plot_color(chart_.series[series].color.value_or(series));
  }

  bool has_legend() const { return chart_.series.size() > 1; }
  static double legend_width(const std::string& name) {
    return 26 + kCharacter * static_cast<double>(name.size());
  }
  int legend_rows() const {
    if (!has_legend()) return 0;
    int rows = 1;
    double x = 8;
    for (const BarChart::Series& series : chart_.series) {
      if (x > 8 && x + legend_width(series.name) > kWidth) {
        ++rows;
        x = 8;
      }
      x += legend_width(series.name);
    }
    return rows;
  }
  void legend() {
    if (!has_legend()) return;
    double x = 8, y = kTop + 2;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i].name;
      if (x > 8 && x + legend_width(name) > kWidth) {
        x = 8;
        y += kLegendRow;
      }
      put(R"(<rect x="{}" y="{}" width="12" height="12" fill="{}"/>)", x, y - 6, color_of(i));
      put(R"(<text x="{}" y="{}">{}</text>)", x + 17, y + 4, escape_html(name));
      x += legend_width(name);
    }
  }

  PlotAxis value_axis() const {
    std::vector<double> values = {0};
    if (chart_.reference) values.push_back(*chart_.reference);
    for (std::size_t category = 0; category < chart_.categories.size(); ++category) {
      double sum = 0;
      for (const BarChart::Series& series : chart_.series) {
        const auto& value = series.values[category];
        if (!value || !std::isfinite(value->value)) continue;
        sum += value->value;
        values.push_back(chart_.stacked ? sum : value->value);
        if (!chart_.stacked && value->high) values.push_back(*value->high);
      }
    }
    return {range_of(values), left_, kWidth - kRight};
  }

  void axis() {
    for (const double tick : axis_.ticks()) {
      const double x = axis_.pixel(tick);
      put(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{:.1f}" stroke="#ddd"/>)", x, x, top_,
          bottom());
      put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#444">{}</text>)", x,
          bottom() + 16, number_text(tick));
    }
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="#222">{}</text>)",
        (left_ + kWidth - kRight) / 2, bottom() + 36, escape_html(chart_.value_label));
  }

  void reference() {
    if (!chart_.reference) return;
    const double x = axis_.pixel(*chart_.reference);
    put(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{:.1f}" stroke="#333" stroke-dasharray="5 3"/>)",
        x, x, top_, bottom());
  }

  void band(std::size_t category) {
    const double y = top_ + band_height() * static_cast<double>(category) + kGap / 2;
    const double middle = y + (band_height() - kGap) / 2;
    const std::string& name = chart_.categories[category];
    put(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end"{}>{}</text>)", left_ - 8, middle + 4,
        squeeze(name), escape_html(name));
    double before = 0;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const auto& value = chart_.series[i].values[category];
      if (!value || !std::isfinite(value->value)) continue;
      if (chart_.stacked) {
        bar(category, i, before, before + value->value, y, kBar * 1.4);
        before += value->value;
      } else {
        const double top = y + kBar * static_cast<double>(i);
        bar(category, i, 0, value->value, top, kBar);
        whisker(*value, top + kBar / 2);
      }
    }
  }

  void bar(std::size_t category, std::size_t series, double from, double to, double y,
           double thickness) {
    const double first = axis_.pixel(std::min(from, to));
    const double width = std::max(0.5, axis_.pixel(std::max(from, to)) - first);
    put(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"><title>{}</title></rect>)",
        first, y + 1, width, thickness - 2, color_of(series),
        escape_html(note_of(category, series)));
  }

  std::string note_of(std::size_t category, std::size_t series) const {
    const PlotValue& value = *chart_.series[series].values[category];
    std::string text = fmt::format("{}, {}: {}", chart_.categories[category],
                                   chart_.series[series].name, number_text(value.value));
    if (value.low && value.high) {
      text += fmt::format(" [{}, {}]", number_text(*value.low), number_text(*value.high));
    }
    return text;
  }

  void whisker(const PlotValue& value, double y) {
    double end = axis_.pixel(value.value);
    if (value.low && value.high) {
      const double low = axis_.pixel(*value.low), high = axis_.pixel(*value.high);
      put(R"(<path d="M{:.1f} {:.1f}H{:.1f}M{:.1f} {:.1f}v6M{:.1f} {:.1f}v6" stroke="#111" fill="none"/>)",
          low, y, high, low, y - 3, high, y - 3);
      end = std::max(end, high);
    }
    put(R"(<text x="{:.1f}" y="{:.1f}" font-size="11" fill="#333">{:.2f}</text>)", end + 5, y + 4,
        value.value);
  }

  const BarChart& chart_;
  double left_, top_;
  PlotAxis axis_;
  std::string out_;
};

}  // namespace

std::string svg_of(const BarChart& chart) { return BarDrawing(chart).text(); }

}  // namespace talon
