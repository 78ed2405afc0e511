#include "bench/page/tree_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/page/tree_drawing.h"
#include "trace/round_tally.h"

namespace talon {
namespace {

int accepted_in(const TraceRound& round) { return static_cast<int>(round.accepted.size()) - 1; }

struct Times {
  double draft_ms = 0, check_ms = 0, other_ms = 0;
  double all_ms() const { return draft_ms + check_ms + other_ms; }
};

/// Rounds with several sequences report the shared time once for each.
Times times_of(const Trace& trace) {
  Times times;
  for (const TraceRound& round : trace.rounds) {
    times.draft_ms += round.draft_ms / round.sequences;
    times.check_ms += round.check_ms / round.sequences;
    times.other_ms += round.other_ms / round.sequences;
  }
  return times;
}

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

PageTable settings_of(const Trace& trace) {
  PageTable table{{"setting", "value"}};
  for (const auto& [key, value] : trace.about.items()) {
    if (key != "trace" && !value.is_structured()) table.rows.push_back({key, plain(value)});
  }
  return table;
}

PageTable sums_of(const Trace& trace) {
  RoundTally tally;
  for (const TraceRound& round : trace.rounds) tally.add(report_of(round));
  const Times times = times_of(trace);
  const double rounds = std::max<double>(1, tally.rounds);
  const auto row = [](std::string name, std::string value) {
    return std::vector<std::string>{std::move(name), std::move(value)};
  };
  PageTable table{{"of all rounds", ""}};
  table.rows = {row("rounds", fmt::format("{}", tally.rounds)),
                row("tokens per check (tau)", fmt::format("{:.2f}", tally.tau())),
                row("draft nodes per check", fmt::format("{:.1f}", tally.drafted / rounds)),
                row("of these accepted", fmt::format("{:.2f}", tally.accepted / rounds)),
                row("milliseconds per round", fmt::format("{:.2f}", times.all_ms() / rounds))};
  return table;
}

XyPlot accepted_along_text(const Trace& trace) {
  std::map<SequenceId, XyPlot::Series> series;
  for (const TraceRound& round : trace.rounds) {
    XyPlot::Series& of = series[round.sequence];
    if (of.name.empty()) of.name = fmt::format("sequence {}", round.sequence);
    of.line = false;
    of.points.push_back({static_cast<double>(round.position),
                         {static_cast<double>(accepted_in(round))},
                         fmt::format("round {}", round.round)});
  }
  XyPlot plot{"Draft nodes accepted along the text", "position of the root", "accepted"};
  plot.y_least = 0;
  for (auto& [sequence, points] : series) plot.series.push_back(std::move(points));
  return plot;
}

BarChart lengths(const Trace& trace) {
  std::map<int, int> count;
  for (const TraceRound& round : trace.rounds) ++count[accepted_in(round)];
  BarChart chart{"How many rounds accepted how much", "rounds"};
  BarChart::Series series{"rounds", {}};
  for (int accepted = 0; !count.empty() && accepted <= count.rbegin()->first; ++accepted) {
    chart.categories.push_back(fmt::format("{}", accepted));
    series.values.push_back(PlotValue{static_cast<double>(count[accepted])});
  }
  chart.series.push_back(std::move(series));
  return chart;
}

BarChart time_shares(const Trace& trace) {
  const Times times = times_of(trace);
  BarChart chart{"Milliseconds of all rounds", "ms"};
  chart.categories = {"all rounds"};
  chart.stacked = true;
  chart.series = {{"draft", {PlotValue{times.draft_ms}}},
                  {"check", {PlotValue{times.check_ms}}},
                  {"other", {PlotValue{times.other_ms}}}};
  return chart;
}

XyPlot time_along_text(const Trace& trace) {
  XyPlot plot{"Milliseconds of each round", "position of the root", "ms"};
  plot.series = {{"draft", {}}, {"check", {}}, {"other", {}}};
  plot.y_least = 0;
  for (const TraceRound& round : trace.rounds) {
    const double ms[] = {round.draft_ms, round.check_ms, round.other_ms};
    for (std::size_t i = 0; i < plot.series.size(); ++i) {
      plot.series[i].line = false;
      plot.series[i].points.push_back({static_cast<double>(round.position), {ms[i]}});
    }
  }
  return plot;
}

}  // namespace

std::vector<std::size_t> rounds_to_draw(const Trace& trace, int drawings) {
  const std::size_t count = trace.rounds.size();
  const auto wanted = std::min(static_cast<std::size_t>(std::max(drawings, 0)), count);
  if (wanted == 0) return {};
  const auto most = std::max_element(
      trace.rounds.begin(), trace.rounds.end(),
      [](const auto& a, const auto& b) { return accepted_in(a) < accepted_in(b); });
  std::vector<std::size_t> chosen = {static_cast<std::size_t>(most - trace.rounds.begin())};
  std::vector<std::size_t> others;
  for (std::size_t round = 0; round < count; ++round) {
    if (round != chosen[0]) others.push_back(round);
  }
  for (std::size_t i = 0; i + 1 < wanted; ++i) {
    chosen.push_back(others[i * others.size() / (wanted - 1)]);
  }
  return chosen;
}

Page tree_page(const Trace& trace, const std::string& name, int drawings) {
  Page page("Drafted trees", name);
  page.section("Overview");
  page.add(sums_of(trace));
  page.add(settings_of(trace));
  page.section("Accepted length");
  page.add(accepted_along_text(trace));
  page.add(lengths(trace));
  page.section("Time");
  page.add(time_shares(trace));
  page.add(time_along_text(trace));
  page.section("Trees",
               "The root is the newest token of the text; each node shows its token, its title the "
               "drafter's chance of the path. Accepted nodes are filled.");
  for (const std::size_t round : rounds_to_draw(trace, drawings)) {
    page.figure(tree_svg(report_of(trace.rounds[round]), trace.rounds[round].text));
  }
  return page;
}

}  // namespace talon
