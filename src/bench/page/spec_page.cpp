#include "bench/page/spec_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/spec/spec_questions.h"
#include "bench/spec/spec_summary.h"
#include "bench/spec/spec_table.h"

namespace talon {
namespace {

/// Fewer trials than this make no point of a plot.
constexpr std::size_t kFewest = 10;

constexpr std::size_t kGrey = 7;  // of the palette

using Summaries = std::vector<MethodSummary>;

PlotValue plot_value(double value, const Interval& range) {
  if (!std::isfinite(range.low)) return {value, {}, {}};
  return {value, range.low, range.high};
}

XyPlot::Series guide_of(const std::string& name) {
  XyPlot::Series series;
  series.name = name;
  series.guide = true;
  return series;
}

/// What the page says about one set of conditions.
class SpecPages {
 public:
  SpecPages(std::span<const SpecCell> cells, const std::vector<std::string>& methods)
      : cells_(cells), methods_(methods), all_(summarize(cells, methods)) {
    for (const auto& [subtask, group] :
         group_cells(cells, [](const SpecCell& cell) { return subtask_name(cell); })) {
      subtasks_.emplace_back(subtask, summarize(group, methods));
    }
  }

  void add_to(Page& page, const Json& closing) const {
    page.section("Overview");
    page.add(spec_table(all_));
    page.paragraph(kSpecTableNote);
    if (const std::string bound = spec_bound(all_.front(), closing); !bound.empty())
      page.paragraph(bound);
    add_temperatures(page);
    add_subtasks(page);
    add_price(page);
    add_depth(page);
    add_time(page);
    add_calibration(page);
    add_checks(page);
    add_questions(page);
  }

 private:
  static std::string subtask_name(const SpecCell& cell) {
    const std::string name = subtask_of(cell.category);
    return name.empty() ? "(no category)" : name;
  }
  /// A method looks the same in every drawing; plain decoding is grey.
  std::size_t color_of(std::string_view method) const {
    const auto place = static_cast<std::size_t>(
        std::find(methods_.begin(), methods_.end(), method) - methods_.begin());
    return place == 0 ? kGrey : (place - 1) % kGrey;
  }
  XyPlot::Series series_of(const std::string& method, bool line) const {
    XyPlot::Series series;
    series.name = method;
    series.line = line;
    series.color = color_of(method);
    return series;
  }
  bool drafts(const MethodSummary& summary) const { return summary.rounds.drafted > 0; }

  void add_temperatures(Page& page) const {
    const auto groups = group_cells(cells_, [](const SpecCell& cell) {
      return fmt::format("temperature {}", cell.temperature);
    });
    if (groups.size() < 2) return;
    for (const auto& [name, group] : groups) {
      PageTable table = spec_table(summarize(group, methods_));
      table.caption = name;
      page.add(table);
    }
  }

  void add_subtasks(Page& page) const {
    page.section("Speed-up by category",
                 "Tokens per second after the prefill, over plain decoding in the same run.");
    PageTable table;
    BarChart chart{"Speed-up with 95 % intervals", "times plain decoding"};
    chart.reference = 1;
    table.columns = {"method"};
    for (const auto& [name, summaries] : subtasks_) {
      table.columns.push_back(fmt::format("{} ({})", name, summaries.front().counted));
      chart.categories.push_back(name);
    }
    for (std::size_t m = 0; m < methods_.size(); ++m) {
      std::vector<std::string> row = {methods_[m]};
      BarChart::Series series{methods_[m], {}, color_of(methods_[m])};
      for (const auto& [name, summaries] : subtasks_) {
        const MethodSummary& s = summaries[m];
        row.push_back(with_range(s.speedup, s.speedup_range));
        series.values.push_back(plot_value(s.speedup, s.speedup_range));
      }
      table.rows.push_back(std::move(row));
      if (m > 0) chart.series.push_back(std::move(series));
    }
    table.caption = "In brackets behind the category: how many answers count.";
    page.add(table);
    if (!chart.series.empty()) page.add(chart);
  }

  /// Milliseconds of a plain step.
  double plain_ms() const {
    const MethodSummary& plain = all_.front();
    return plain.tok_s > 0 ? 1000 / plain.tok_s : 0;
  }

  void add_price(Page& page) const {
    XyPlot plot;
    plot.title = "Tokens per check against the price of drafting";
    plot.x_label = "what drafting and checking more rows add to a round, in plain steps";
    plot.y_label = "tau, tokens per check";
    double most_x = 0.5, most_y = 2;
    for (const MethodSummary& s : all_) {
      if (s.rounds.rounds == 0 || !(s.tau > 0) || !(s.tok_s > 0)) continue;
      const double added = s.tau / (s.speedup > 0 ? s.speedup : 1) - 1;
      most_x = std::max(most_x, added * 1.15);
      most_y = std::max(most_y, s.tau * 1.1);
      XyPlot::Series series = series_of(s.method, false);
      series.points.push_back({std::max(0.0, added), plot_value(s.tau, s.tau_range), ""});
      plot.series.push_back(std::move(series));
    }
    if (plot.series.size() < 2) return;
    for (const double speedup : {1.0, 1.5, 2.0, 3.0, 4.0}) {
      if (speedup > most_y) break;
      XyPlot::Series guide = guide_of(fmt::format("{}x", speedup));
      for (int i = 0; i <= 60; ++i) {
        const double x = most_x * i / 60;
        guide.points.push_back({x, {speedup * (1 + x)}, ""});
      }
      plot.series.push_back(std::move(guide));
    }
    plot.x_least = 0;
    plot.x_most = most_x;
    plot.y_least = 1;
    plot.y_most = most_y;
    page.section(
        "What drafting costs and brings",
        "A method's speed-up is tau over the time of a round in plain steps. Dashed: equal "
        "speed-up; below 1x drafting loses time.");
    page.add(plot);
  }

  void add_depth(Page& page) const {
    XyPlot plot;
    plot.title = "Acceptance by depth";
    plot.x_label = "depth in the tree";
    plot.y_label = "chance that the text stays in the tree";
    plot.y_least = 0;
    plot.y_most = 1;
    double deepest = 7;  // fewer would put marks between whole depths
    for (const MethodSummary& s : all_) {
      if (!drafts(s)) continue;
      XyPlot::Series series = series_of(s.method, true);
      for (std::size_t d = 0; d < s.rounds.tried.size(); ++d) {
        if (s.rounds.tried[d] < static_cast<int>(kFewest)) break;
        const double rate = static_cast<double>(s.rounds.right[d]) / s.rounds.tried[d];
        deepest = std::max(deepest, static_cast<double>(d + 1));
        series.points.push_back({static_cast<double>(d + 1),
                                 {rate},
                                 fmt::format("{} of {}", s.rounds.right[d], s.rounds.tried[d])});
      }
      plot.series.push_back(std::move(series));
    }
    if (plot.series.empty()) return;
    plot.x_least = 1;
    plot.x_most = deepest;
    page.section("Acceptance by depth",
                 "Of the checks in which the text followed the tree so far and the tree went on: "
                 "how many found the next token in it.");
    page.add(plot);
  }

  void add_time(Page& page) const {
    BarChart chart{"Milliseconds per token", "ms per token after the prefill"};
    chart.stacked = true;
    std::vector<BarChart::Series> parts = {{"draft", {}}, {"check", {}}, {"other", {}}};
    PageTable table;
    table.columns = {"method", "ms per token", "draft",        "check",
                     "other",  "ms per draft", "ms per check", "prefill tok/s"};
    for (const MethodSummary& s : all_) {
      double tokens = 0;
      for (const SpecCell& cell : cells_) {
        if (cell.method == s.method && cell.counts() && !cell.tok_s.empty())
          tokens += spread_of(cell.tok_s).median * cell.decode_ms / 1000;
      }
      if (!(tokens > 0) || s.counted == 0) continue;
      const double rounds = static_cast<double>(s.rounds.rounds) / repeats();
      const double other = std::max(0.0, s.other_ms());
      chart.categories.push_back(s.method);
      parts[0].values.push_back(PlotValue{s.draft_ms / tokens});
      parts[1].values.push_back(PlotValue{s.check_ms / tokens});
      parts[2].values.push_back(PlotValue{other / tokens});
      table.rows.push_back({s.method, number(s.decode_ms / tokens, 2),
                            number(s.draft_ms / tokens, 2), number(s.check_ms / tokens, 2),
                            number(other / tokens, 2),
                            rounds > 0 ? number(s.draft_ms / rounds, 2) : "–",
                            rounds > 0 ? number(s.check_ms / rounds, 2) : "–",
                            s.prompt_tokens > 0 ? number(s.prefill_tok_s(), 0) : "–"});
    }
    chart.series = std::move(parts);
    page.section("Where the time goes");
    page.add(table);
    page.add(chart);
  }

  double repeats() const {
    std::size_t most = 1;
    for (const SpecCell& cell : cells_) most = std::max(most, cell.tok_s.size());
    return static_cast<double>(most);
  }

  void add_calibration(Page& page) const {
    XyPlot plot;
    plot.title = "Predicted and observed acceptance";
    plot.x_label = "the drafter's chance that a token follows";
    plot.y_label = "how often it did";
    plot.x_least = plot.y_least = 0;
    plot.x_most = plot.y_most = 1;
    for (const MethodSummary& s : all_) {
      if (!drafts(s)) continue;
      XyPlot::Series series = series_of(s.method, true);
      for (const RoundTally::Bucket& bucket : s.rounds.calibration) {
        if (bucket.trials < static_cast<int>(kFewest)) continue;
        const double n = bucket.trials;
        const double rate = bucket.right / n;
        const double error = 1.96 * std::sqrt(rate * (1 - rate) / n);
        series.points.push_back({bucket.predicted / n,
                                 {rate, std::max(0.0, rate - error), std::min(1.0, rate + error)},
                                 fmt::format("{} nodes", bucket.trials)});
      }
      plot.series.push_back(std::move(series));
    }
    if (plot.series.empty()) return;
    XyPlot::Series diagonal = guide_of("well calibrated");
    for (int i = 0; i <= 20; ++i) diagonal.points.push_back({i / 20.0, {i / 20.0}, ""});
    plot.series.push_back(std::move(diagonal));
    page.section("Calibration",
                 "Every checked node whose parent was right is a trial. Below the dashed line the "
                 "drafter is too sure, above it too modest.");
    page.add(plot);
  }

  void add_checks(Page& page) const {
    std::map<int, std::vector<double>> ms;
    for (const MethodSummary& s : all_) {
      for (const auto& [rows, values] : s.rounds.check_ms)
        ms[rows].insert(ms[rows].end(), values.begin(), values.end());
    }
    std::erase_if(ms, [](const auto& entry) { return entry.second.size() < kFewest; });
    if (ms.size() < 2) return;
    const double first = spread_of(ms.begin()->second).median;
    XyPlot::Series series;
    series.name = "check";
    for (const auto& [rows, values] : ms) {
      series.points.push_back(
          {static_cast<double>(rows),
           {spread_of(values).median / first},
           fmt::format("{:.2f} ms, {} checks", spread_of(values).median, values.size())});
    }
    XyPlot plot;
    plot.title = "c(n): the price of a check of n rows, of all methods";
    plot.x_label = "rows (the root and the draft nodes)";
    plot.y_label = fmt::format("times a check of {} row{}", ms.begin()->first,
                               ms.begin()->first == 1 ? "" : "s");
    plot.log2_x = true;
    plot.y_least = 0;
    plot.series.push_back(std::move(series));
    page.section("The price of rows",
                 "Medians of the checks of this run. talon bench cost measures the curve by "
                 "itself, beside the machine's limits.");
    page.add(plot);
  }

  void add_questions(Page& page) const {
    std::map<std::string, double> plain;
    for (const SpecCell& cell : cells_) {
      if (cell.method == methods_.front() && cell.error.empty())
        plain[condition_of(cell)] = spread_of(cell.tok_s).median;
    }
    XyPlot plot;
    plot.title = "Every question";
    plot.x_label = "tau, tokens per check";
    plot.y_label = "speed-up over plain decoding";
    for (std::size_t m = 1; m < methods_.size(); ++m) {
      XyPlot::Series series = series_of(methods_[m], false);
      for (const SpecCell& cell : cells_) {
        const auto beside = plain.find(condition_of(cell));
        if (cell.method != methods_[m] || !cell.counts() || beside == plain.end()) continue;
        if (!(beside->second > 0)) continue;
        series.points.push_back(
            {cell.rounds.tau(),
             {spread_of(cell.tok_s).median / beside->second},
             fmt::format("question {}, {}", cell.question_id.dump(), cell.category)});
      }
      if (!series.points.empty()) plot.series.push_back(std::move(series));
    }
    if (plot.series.empty()) return;
    page.section("Every question",
                 "One mark per question and method: rest the pointer on it for its name.");
    page.add(plot);
  }

  std::span<const SpecCell> cells_;
  const std::vector<std::string>& methods_;
  Summaries all_;
  std::vector<std::pair<std::string, Summaries>> subtasks_;
};

PageTable settings_table(const Json& closing) {
  PageTable table;
  table.columns = {"setting", "value"};
  for (const char* key : {"machine", "settings"}) {
    if (!closing.contains(key) || !closing[key].is_object()) continue;
    for (const auto& [name, value] : closing[key].items())
      table.rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return table;
}

}  // namespace

Page spec_page(std::span<const SpecCell> cells, const std::vector<std::string>& methods,
               const Json& closing) {
  Page page("Talon: drafters beside plain decoding", spec_subtitle(closing));
  if (closing.value("partial", false))
    page.paragraph("The run was stopped early: this is what it had answered by then.");
  if (const int skipped = closing.value("skipped", 0); skipped > 0)
    page.paragraph(fmt::format("{} questions did not fit the model's context.", skipped));
  SpecPages(cells, methods).add_to(page, closing);
  page.section("How it was measured");
  page.add(settings_table(closing));
  page.embed("results", closing);
  return page;
}

}  // namespace talon
