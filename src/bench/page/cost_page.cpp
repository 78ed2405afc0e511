#include "bench/page/cost_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace talon {
namespace {

using Groups = std::vector<std::pair<std::string, std::vector<Json>>>;

double number(const Json& line, const char* key) { return line.at(key).get<double>(); }

std::string text(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

std::string words(const Json& line, std::initializer_list<const char*> keys) {
  std::string all;
  for (const char* key : keys) {
    if (!line.contains(key)) continue;
    if (!all.empty()) all += ", ";
    all += line[key].is_string() ? line[key].get<std::string>()
                                 : fmt::format("{} {}", key, line[key].get<int>());
  }
  return all;
}

/// Measured lines by what `keys` hold, in the order in which they first appear.
Groups grouped(std::span<const Json> lines, std::initializer_list<const char*> keys) {
  Groups groups;
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    const std::string name = words(line, keys);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == name; });
    if (found == groups.end()) found = groups.insert(groups.end(), {name, {}});
    found->second.push_back(line);
  }
  return groups;
}

template <typename Value>
XyPlot::Series series_of(std::string name, const std::vector<Json>& lines, Value value) {
  XyPlot::Series series{std::move(name), {}};
  for (const Json& line : lines) series.points.push_back({number(line, "rows"), value(line)});
  return series;
}

PlotValue spread_value(const Json& line) {
  return {number(line, "ms"), number(line, "ms_least"), number(line, "ms_most")};
}

XyPlot cost_curve(const Groups& contexts) {
  XyPlot plot{"Cost of a check", "rows", "times one row"};
  plot.log2_x = true;
  plot.y_least = 0;
  for (const auto& [name, lines] : contexts) {
    plot.series.push_back(
        series_of(name, lines, [](const Json& line) { return PlotValue{number(line, "c")}; }));
  }
  return plot;
}

XyPlot time_plot(const std::string& name, const std::vector<Json>& lines) {
  XyPlot plot{"Forward, " + name, "rows", "ms"};
  plot.log2_x = true;
  plot.y_least = 0;
  plot.series.push_back(series_of("measured", lines, spread_value));
  plot.series.push_back(series_of(
      "limit", lines, [](const Json& line) { return PlotValue{number(line, "limit_ms")}; }));
  plot.series.back().guide = true;
  return plot;
}

BarChart split_chart(const std::string& name, const std::vector<Json>& lines) {
  constexpr std::pair<const char*, const char*> kParts[] = {{"projections", "projections_ms"},
                                                            {"output head", "head_ms"},
                                                            {"attention", "attention_ms"},
                                                            {"rest", "rest_ms"}};
  BarChart chart{"Where the time goes, " + name, "ms"};
  chart.stacked = true;
  for (const Json& line : lines)
    chart.categories.push_back(fmt::format("{} rows", line["rows"].get<int>()));
  for (const auto& [part, key] : kParts) {
    BarChart::Series series{part, {}};
    for (const Json& line : lines)
      series.values.emplace_back(PlotValue{std::max(0.0, number(line, key))});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

/// What is reached by every operation, below the roof, which they share: the same bytes for each
/// multiply-accumulate.
XyPlot roofline(const std::string& name, const std::vector<Json>& lines) {
  XyPlot plot{name, "rows", "GMAC/s"};
  plot.log2_x = true;
  plot.y_least = 0;
  const auto rate = [](const Json& line) { return PlotValue{number(line, "gmac_s")}; };
  const auto roof = [](const Json& line) {
    return PlotValue{number(line, "gmac_s") * number(line, "ms") / number(line, "limit_ms")};
  };
  const Groups operations = grouped(lines, {"op"});
  for (const auto& [operation, points] : operations)
    plot.series.push_back(series_of(operation, points, rate));
  plot.series.push_back(series_of("limit", operations.front().second, roof));
  plot.series.back().guide = true;
  return plot;
}

std::string machine_text(const Json& closing) {
  const Json& machine = closing.at("machine");
  return fmt::format("{}, {} threads, commit {}", machine.at("processor").get<std::string>(),
                     closing.at("settings").at("threads").get<int>(),
                     closing.at("commit").get<std::string>());
}

}  // namespace

PageTable cost_table(std::span<const Json> lines) {
  PageTable table{{"context", "rows", "ms", "least", "most", "c(n)", "projections", "head",
                   "attention", "rest", "GB/s", "GMAC/s", "limit ms", "% of limit"}};
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    table.rows.push_back({std::to_string(line["context"].get<int>()),
                          std::to_string(line["rows"].get<int>()), text(number(line, "ms"), 2),
                          text(number(line, "ms_least"), 2), text(number(line, "ms_most"), 2),
                          text(number(line, "c"), 2), text(number(line, "projections_ms"), 2),
                          text(number(line, "head_ms"), 2), text(number(line, "attention_ms"), 2),
                          text(number(line, "rest_ms"), 2), text(number(line, "gb_s"), 1),
                          text(number(line, "gmac_s"), 0), text(number(line, "limit_ms"), 2),
                          text(number(line, "percent_of_limit"), 0)});
  }
  return table;
}

Page cost_page(std::span<const Json> lines) {
  const Json& closing = lines.back();
  Page page("Cost of a forward",
            closing.at("model").get<std::string>() + " on " + machine_text(closing));
  const Groups contexts = grouped(lines, {"context"});
  page.section("Cost of a check",
               fmt::format("Milliseconds of a forward that gives the logits of all its rows, over "
                           "those of one row. The limit is the slower of reading all weights at "
                           "{:.1f} GB/s and multiplying at {:.0f} GMAC/s ({}), measured in the "
                           "same process.",
                           number(closing, "bandwidth_gb_s"), number(closing, "multiply_gmac_s"),
                           closing.at("multiply_instruction").get<std::string>()));
  page.add(cost_curve(contexts));
  for (const auto& [name, points] : contexts) {
    page.section(name);
    page.add(time_plot(name, points));
    page.add(split_chart(name, points));
  }
  page.section("Numbers");
  page.add(cost_table(lines));
  page.embed("cost", lines);
  return page;
}

PageTable kernel_table(std::span<const Json> lines) {
  PageTable table{{"kernels", "shape", "operation", "format", "context", "rows", "ms", "GB/s",
                   "GMAC/s", "% of limit", "limit"}};
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    const auto word = [&](const char* key) { return line.at(key).get<std::string>(); };
    table.rows.push_back(
        {word("kernels"), word("shape"), word("op"), word("format"),
         line.contains("context") ? std::to_string(line["context"].get<int>()) : "",
         std::to_string(line["rows"].get<int>()), text(number(line, "ms"), 4),
         text(number(line, "gb_s"), 1), text(number(line, "gmac_s"), 0),
         text(number(line, "percent_of_limit"), 0), word("limit")});
  }
  return table;
}

Page kernel_page(std::span<const Json> lines) {
  Page page("Kernels", machine_text(lines.back()));
  std::string section;
  for (const auto& [name, points] : grouped(lines, {"kernels", "shape", "format", "context"})) {
    const std::string heading = words(points.front(), {"kernels", "shape"});
    if (heading != section) {
      page.section(heading,
                   "What is reached against rows. The limit is the slower of reading the weights "
                   "(or the cache) and multiplying, both measured in the same process.");
      section = heading;
    }
    page.add(roofline(words(points.front(), {"format", "context"}), points));
  }
  page.section("Numbers");
  page.add(kernel_table(lines));
  page.embed("kernels", lines);
  return page;
}

}  // namespace talon
