#include "bench/page/reliability_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

XyPlot::Series series_of(const std::string& name, const Reliability::Diagram& diagram) {
  XyPlot::Series series{.name = name, .points = {}};
  for (const Reliability::Bucket& bucket : diagram.buckets) {
    if (bucket.trials == 0) continue;
    const double share = static_cast<double>(bucket.right) / bucket.trials;
    const double spread = std::sqrt(share * (1 - share) / bucket.trials);
    series.points.push_back(
        {bucket.predicted / bucket.trials,
         {share, std::max(0.0, share - 2 * spread), std::min(1.0, share + 2 * spread)},
         fmt::format("{} of {}", bucket.right, bucket.trials)});
  }
  return series;
}

}  // namespace

PageTable reliability_table(const Reliability& reliability) {
  PageTable table{
      .columns = {"depth", "trials", "error before", "error after", "Brier before", "Brier after"}};
  for (int depth = 0; depth <= Reliability::kDepths; ++depth) {
    if (reliability.before(depth).trials() == 0) continue;
    const std::string name =
        depth == 0 ? "all" : fmt::format("{}{}", depth, depth == Reliability::kDepths ? "+" : "");
    table.rows.push_back({name, fmt::format("{}", reliability.before(depth).trials()),
                          fmt::format("{:.4f}", reliability.before(depth).calibration_error()),
                          fmt::format("{:.4f}", reliability.after(depth).calibration_error()),
                          fmt::format("{:.4f}", reliability.before(depth).brier()),
                          fmt::format("{:.4f}", reliability.after(depth).brier())});
  }
  return table;
}

Page reliability_page(const Reliability& reliability, std::string_view subtitle) {
  Page page("Calibration of the drafter", subtitle);
  page.section("Errors",
               "Checked nodes whose parent became text. Error: how far the share of right nodes "
               "lies from what their bucket of chances promised, averaged over nodes.");
  page.add(reliability_table(reliability));
  page.section("Reliability", "On the diagonal a node comes true as often as it was believed.");
  for (int depth = 0; depth <= Reliability::kDepths; ++depth) {
    if (reliability.before(depth).trials() == 0) continue;
    XyPlot plot{.title = depth == 0 ? "All depths" : fmt::format("Depth {}", depth),
                .x_label = "chance that the node follows its parent",
                .y_label = "share that did"};
    plot.series = {series_of("before", reliability.before(depth)),
                   series_of("after", reliability.after(depth))};
    XyPlot::Series diagonal{.name = "as promised", .points = {}};
    diagonal.points = {{0, {0}}, {1, {1}}};
    diagonal.guide = true;
    plot.series.push_back(diagonal);
    plot.x_least = plot.y_least = 0;
    plot.x_most = plot.y_most = 1;
    page.add(plot);
  }
  return page;
}

}  // namespace talon
