#include "bench/page/plot.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "bench/page/page.h"
#include "bench/page/plot_axis.h"

namespace talon {
namespace {

int count(const std::string& text, const std::string& piece) {
  int found = 0;
  for (std::size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

/// Whether every element that is opened is closed, in order.
bool is_well_formed(const std::string& markup) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)[^>]*?(/?)>");
  for (std::sregex_iterator each(markup.begin(), markup.end(), tag), end; each != end; ++each) {
    const std::string name = (*each)[2];
    if ((*each)[3].length() > 0 || name == "meta") continue;
    if ((*each)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(PlotAxis, EndsOnRoundTicksAroundItsValues) {
  const PlotAxis axis({0.13, 2.71}, 100, 200);
  EXPECT_EQ(axis.ticks().front(), 0);
  EXPECT_EQ(axis.ticks().back(), 3);
  EXPECT_EQ(axis.pixel(0), 100);
  EXPECT_EQ(axis.pixel(3), 200);
  EXPECT_EQ(axis.pixel(1.5), 150);
}

TEST(PlotAxis, KeepsPinnedEndsAndCountsInPowersOfTwo) {
  const PlotAxis pinned({0, 0.93, true, true}, 0, 93);
  EXPECT_EQ(pinned.pixel(0.93), 93);
  const PlotAxis rows({1, 64, false, false, true}, 0, 60);
  EXPECT_EQ(rows.ticks(), (std::vector<double>{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(rows.pixel(8), 30);
}

TEST(PlotAxis, OfNothingOrOneValueStillHasALength) {
  EXPECT_EQ(range_of({}).most, 1);
  const PlotAxis::Range one = range_of({5, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_GT(one.most, one.least);
}

XyPlot small_plot() {
  XyPlot plot;
  plot.title = "a < b";
  plot.x_label = "x";
  plot.y_label = "y & z";
  XyPlot::Series series;
  series.name = "\"one\"";
  series.points = {{1, {2, 1.5, 2.5}, "note"}, {2, {4}, ""}};
  plot.series = {series};
  return plot;
}

TEST(XyPlot, DrawsEveryFinitePointWithItsNumbers) {
  XyPlot plot = small_plot();
  plot.series[0].points.push_back({3, {std::numeric_limits<double>::quiet_NaN()}, ""});
  const std::string svg = svg_of(plot);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "<circle"), 2);
  EXPECT_NE(svg.find("&quot;one&quot;: 1, 2 [1.5, 2.5]\nnote"), std::string::npos) << svg;
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(XyPlot, WithoutPointsIsStillADrawing) {
  EXPECT_TRUE(is_well_formed(svg_of(XyPlot{"", "", ""})));
}

TEST(XyPlot, NamesAGuideAtItsEndAndBelowTheLegend) {
  XyPlot plot = small_plot();
  plot.series.push_back(plot.series[0]);
  plot.series[1].name = "two";
  plot.y_most = 4;
  plot.series.push_back({"limit", {{1, {3}, ""}, {2, {4}, ""}}});  // ends at the top of the drawing
  plot.series.back().guide = true;
  const std::string svg = svg_of(plot);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "limit"), 1) << "not in the legend";
  const std::regex text("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*>([^<]*)</text>");
  double guide_y = 0, legend_y = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    if ((*at)[3] == "limit") guide_y = std::stod((*at)[2]);
    if ((*at)[3] == "two") legend_y = std::stod((*at)[2]);
  }
  EXPECT_GT(legend_y, 0);
  EXPECT_GT(guide_y, legend_y + 5);
}

TEST(BarChart, LeavesOutWhatIsMissing) {
  BarChart chart{"speed", "times"};
  chart.categories = {"qa", "rag"};
  chart.series = {{"ngram", {PlotValue{1.5, 1.2, 1.8}, std::nullopt}},
                  {"eagle", {PlotValue{2}, PlotValue{std::numeric_limits<double>::infinity()}}}};
  chart.reference = 1;
  const std::string svg = svg_of(chart);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "<title>"), 2);
  EXPECT_NE(svg.find("qa, ngram: 1.5 [1.2, 1.8]"), std::string::npos) << svg;
}

TEST(BarChart, SqueezesANameThatIsLongerThanItsRoom) {
  BarChart chart{"speed", "times"};
  chart.series = {{"speed", {PlotValue{1}, PlotValue{2}}}};
  chart.categories = {"qa", "rag"};
  EXPECT_EQ(svg_of(chart).find("textLength"), std::string::npos);
  chart.categories[1] = std::string(60, 'x');
  const std::string svg = svg_of(chart);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "textLength"), 1);
}

TEST(BarChart, StacksPiecesOneBehindTheOther) {
  BarChart chart{"time", "ms"};
  chart.categories = {"all"};
  chart.series = {{"draft", {PlotValue{2}}}, {"check", {PlotValue{8}}}};
  chart.stacked = true;
  std::smatch first, second;
  const std::string svg = svg_of(chart);
  const std::regex bar("<rect x=\"([0-9.]+)\"[^>]*width=\"([0-9.]+)\"[^>]*><title>");
  ASSERT_TRUE(std::regex_search(svg, first, bar));
  const std::string rest = first.suffix();
  ASSERT_TRUE(std::regex_search(rest, second, bar));
  EXPECT_NEAR(std::stod(first[1]) + std::stod(first[2]), std::stod(second[1]), 0.2);
  EXPECT_NEAR(std::stod(second[2]), 4 * std::stod(first[2]), 0.5);
}

TEST(Page, HoldsAllItShowsAndNeedsNoNetwork) {
  Page page("T <1>", "sub");
  page.section("One", "a & b");
  PageTable table;
  table.columns = {"method", "tok/s"};
  table.rows = {{"<none>", "1.0"}};
  table.caption = "c";
  page.add(table);
  page.add(small_plot());
  page.embed("data", {{"text", "</script><script>alert(1)</script>"}});
  const std::string html = page.html();
  EXPECT_TRUE(is_well_formed(html)) << html;
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_EQ(count(html, "<script"), 1);
  EXPECT_NE(html.find("<td>&lt;none&gt;</td>"), std::string::npos);
  const std::regex data("id=\"data\">([^<]*)</script>");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(html, found, data));
  EXPECT_EQ(Json::parse(found[1].str())["text"], "</script><script>alert(1)</script>");
}

TEST(Page, TablesAreMarkdownToo) {
  PageTable table;
  table.columns = {"a", "b"};
  table.rows = {{"x|y", "1"}};
  EXPECT_EQ(markdown_of(table), "| a | b |\n|---|---:|\n| x\\|y | 1 |\n");
}

}  // namespace
}  // namespace talon
