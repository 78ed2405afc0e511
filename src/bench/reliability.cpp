#include "bench/reliability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

Json json_of(const Reliability::Diagram& diagram) {
  return {{"trials", diagram.trials()},
          {"calibration_error", diagram.calibration_error()},
          {"brier", diagram.brier()}};
}

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

void Reliability::Diagram::add(double predicted, bool right) {
  const int place = std::clamp(static_cast<int>(predicted * kBuckets), 0, kBuckets - 1);
  Bucket& bucket = buckets[static_cast<std::size_t>(place)];
  ++bucket.trials;
  bucket.right += right ? 1 : 0;
  bucket.predicted += predicted;
  squared_error += (predicted - (right ? 1 : 0)) * (predicted - (right ? 1 : 0));
}

int Reliability::Diagram::trials() const {
  int sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.trials;
  return sum;
}

double Reliability::Diagram::calibration_error() const {
  double sum = 0;
  for (const Bucket& bucket : buckets) sum += std::abs(bucket.right - bucket.predicted);
  return trials() > 0 ? sum / trials() : 0;
}

double Reliability::Diagram::brier() const { return trials() > 0 ? squared_error / trials() : 0; }

std::size_t Reliability::index(int depth) {
  return static_cast<std::size_t>(std::min(depth, kDepths));
}

/// The whole round is predicted before any of it is learned.
void Reliability::add(const RoundReport& round) {
  struct Trial {
    int depth;
    double predicted;
    bool right;
  };
  std::vector<Trial> trials;
  const DraftTree& tree = *round.tree;
  for (std::size_t level = 0; level < round.emitted.size() && level < round.accepted.size();
       ++level) {
    const NodeId parent = round.accepted[level];
    const double parent_log_p = static_cast<double>(tree.log_p[static_cast<std::size_t>(parent)]);
    for (NodeId node = parent + 1; node < tree.size(); ++node) {
      const auto i = static_cast<std::size_t>(node);
      if (tree.parent[i] != parent) continue;
      trials.push_back({static_cast<int>(level) + 1,
                        std::exp(static_cast<double>(tree.log_p[i]) - parent_log_p),
                        tree.token[i] == round.emitted[level]});
    }
  }
  for (const auto& [depth, predicted, right] : trials) {
    const double corrected = calibration_.probability(depth, predicted);
    for (const int place : {0, depth}) {
      before_[index(place)].add(predicted, right);
      after_[index(place)].add(corrected, right);
    }
  }
  for (const auto& [depth, predicted, right] : trials)
    calibration_.observe(depth, predicted, right);
}

std::vector<Json> Reliability::lines() const {
  std::vector<Json> lines;
  for (const auto& [stage, diagrams] :
       {std::pair{"before", &before_}, std::pair{"after", &after_}}) {
    for (std::size_t depth = 0; depth < diagrams->size(); ++depth) {
      const auto& buckets = (*diagrams)[depth].buckets;
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        if (buckets[i].trials == 0) continue;
        lines.push_back({{"stage", stage},
                         {"depth", depth},
                         {"bucket", i},
                         {"trials", buckets[i].trials},
                         {"right", buckets[i].right},
                         {"predicted", buckets[i].predicted}});
      }
    }
  }
  return lines;
}

Json Reliability::summary() const {
  return {{"before", json_of(before(0))}, {"after", json_of(after(0))}};
}

PageTable Reliability::table() const {
  PageTable table{
      .columns = {"depth", "trials", "error before", "error after", "Brier before", "Brier after"}};
  for (int depth = 0; depth <= kDepths; ++depth) {
    if (before(depth).trials() == 0) continue;
    const std::string name =
        depth == 0 ? "all" : fmt::format("{}{}", depth, depth == kDepths ? "+" : "");
    table.rows.push_back({name, fmt::format("{}", before(depth).trials()),
                          fmt::format("{:.4f}", before(depth).calibration_error()),
                          fmt::format("{:.4f}", after(depth).calibration_error()),
                          fmt::format("{:.4f}", before(depth).brier()),
                          fmt::format("{:.4f}", after(depth).brier())});
  }
  return table;
}

Page Reliability::page(std::string_view subtitle) const {
  Page page("Calibration of the drafter", subtitle);
  page.section("Errors",
               "Checked nodes whose parent became text. Error: how far the share of right nodes "
               "lies from what their bucket of chances promised, averaged over nodes.");
  page.add(table());
  page.section("Reliability", "On the diagonal a node comes true as often as it was believed.");
  for (int depth = 0; depth <= kDepths; ++depth) {
    if (before(depth).trials() == 0) continue;
    XyPlot plot{.title = depth == 0 ? "All depths" : fmt::format("Depth {}", depth),
                .x_label = "chance that the node follows its parent",
                .y_label = "share that did"};
    plot.series = {series_of("before", before(depth)), series_of("after", after(depth))};
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
