#include "bench/page/tree_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bench/page/page.h"
#include "trace/tree_text.h"

namespace talon {
namespace {

constexpr double kRow = 20, kMargin = 12, kTop = 30;
constexpr double kCharacter = 6.6, kBoxHeight = 16, kColumnGap = 26;
constexpr std::size_t kLongestLabel = 16;  // characters

std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

/// Where UTF-8 text of at most `most` characters ends.
std::size_t cut_at(const std::string& text, std::size_t most) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && ++characters > most) return i;
  }
  return text.size();
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

class TreeDrawing {
 public:
  TreeDrawing(const RoundReport& report, const std::vector<std::string>& text)
      : report_(report), tree_(*report.tree), places_(tree_.token.size()) {
    for (NodeId node = 0; node < tree_.size(); ++node) label(node, text);
    for (const NodeId node : report.accepted) places_[index(node)].accepted = true;
    place_rows();
    place_columns();
  }

  std::string text() {
    const double width = columns_.back() + kMargin;
    const double height = kTop + kRow * rows_ + kMargin;
    put(R"(<svg viewBox="0 0 {:.0f} {:.0f}" style="max-width:{:.0f}px" role="img" )"
        R"(font-family="ui-monospace, monospace" font-size="11">)",
        width, height, width);
    put(R"(<text x="{}" y="16" font-size="13" font-weight="600">Round {}, position {}: )"
        R"({} of {} accepted</text>)",
        kMargin, report_.round, report_.position, report_.accepted.size() - 1, tree_.draft_nodes());
    for (NodeId node = 1; node < tree_.size(); ++node) line(node);
    for (NodeId node = 0; node < tree_.size(); ++node) box(node);
    return out_ + "</svg>";
  }

 private:
  struct Place {
    std::string label;
    double row = 0;
    int depth = 0;
    bool accepted = false;
  };

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void label(NodeId node, const std::vector<std::string>& text) {
    Place& place = places_[index(node)];
    place.label = text.empty() ? fmt::format("{}", tree_.token[index(node)])
                               : quoted_piece(text[index(node)]);
    const std::size_t end = cut_at(place.label, kLongestLabel);
    if (end < place.label.size()) place.label = place.label.substr(0, end) + "\u2026";
    if (node > 0) place.depth = places_[index(tree_.parent[index(node)])].depth + 1;
  }

  /// Leaves from top to bottom, a parent on the row of its likeliest child.
  void place_rows() {
    std::vector<std::vector<NodeId>> children(tree_.token.size());
    for (NodeId node = 1; node < tree_.size(); ++node) {
      children[index(tree_.parent[index(node)])].push_back(node);
    }
    std::vector<NodeId> open = {0};
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      places_[index(node)].row = rows_;
      auto& below = children[index(node)];
      std::stable_sort(below.begin(), below.end(), [&](NodeId a, NodeId b) {
        return tree_.log_p[index(a)] > tree_.log_p[index(b)];
      });
      if (below.empty()) ++rows_;
      open.insert(open.end(), below.rbegin(), below.rend());
    }
  }

  void place_columns() {
    std::vector<double> width;
    for (const Place& place : places_) {
      width.resize(std::max(width.size(), index(place.depth) + 1));
      width[index(place.depth)] = std::max(width[index(place.depth)], box_width(place));
    }
    columns_.push_back(kMargin);
    for (const double column : width) columns_.push_back(columns_.back() + column + kColumnGap);
  }

  double box_width(const Place& place) const {
    return 8 + kCharacter * static_cast<double>(characters(place.label));
  }
  double x_of(const Place& place) const { return columns_[index(place.depth)]; }
  double y_of(const Place& place) const { return kTop + kRow * (place.row + 0.5); }
  double chance_of(NodeId node) const {
    return std::exp(static_cast<double>(tree_.log_p[index(node)]));
  }

  void line(NodeId node) {
    const Place& from = places_[index(tree_.parent[index(node)])];
    const Place& to = places_[index(node)];
    const double x0 = x_of(from) + box_width(from), x1 = x_of(to);
    const double y0 = y_of(from), y1 = y_of(to), middle = x1 - kColumnGap / 2;
    put(R"(<path d="M{:.1f} {:.1f}H{:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}" fill="none" )"
        R"(stroke="{}" stroke-width="{:.2f}"/>)",
        x0, y0, x1 - kColumnGap, middle, y0, middle, y1, x1, y1,
        to.accepted ? "#1a7f37" : "#9aa4ae", 0.6 + 2.4 * std::sqrt(chance_of(node)));
  }

  void box(NodeId node) {
    const Place& place = places_[index(node)];
    const double x = x_of(place), y = y_of(place);
    put(R"(<g><title>token {}, chance of the path {:.1f} %{}</title>)", tree_.token[index(node)],
        100 * chance_of(node),
        node == 0        ? ", the root"
        : place.accepted ? ", accepted"
                         : "");
    put(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" rx="3" fill="{}" stroke="{}"/>)",
        x, y - kBoxHeight / 2, box_width(place), kBoxHeight, place.accepted ? "#d7f0dd" : "#ffffff",
        place.accepted ? "#1a7f37" : "#9aa4ae");
    put(R"(<text x="{:.1f}" y="{:.1f}" xml:space="preserve">{}</text></g>)", x + 4, y + 4,
        escape_html(place.label));
  }

  const RoundReport& report_;
  const DraftTree& tree_;
  std::vector<Place> places_;
  std::vector<double> columns_;  // left edge of each level
  int rows_ = 0;
  std::string out_;
};

}  // namespace

std::string tree_svg(const RoundReport& report, const std::vector<std::string>& text) {
  return TreeDrawing(report, text).text();
}

}  // namespace talon
