#include "bench/spec/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/method_name.h"
#include "bench/spec/spec_questions.h"
#include "bench/spec/spec_summary.h"
#include "bench/spec/spec_table.h"
#include "core/error.h"

namespace talon {
namespace {

constexpr const char* kAll = "all";
constexpr const char* kTableNote =
    "Speed-up over plain decoding of the same run with its 95 % interval, and tokens per check. "
    "A dash: not measured on that model.";
constexpr const char* kTimesNote =
    "Milliseconds of a round: draft, all that the drafter does; check, the target's pass over the "
    "tree; pass, the target's pass over one token in plain decoding. Brackets: 95 % intervals over "
    "questions.";

/// Draws of one run: those of a temperature and a kind of questions.
struct Slice {
  double temperature;
  std::string subtask;
  std::vector<SpecCell> cells;
};

std::vector<Slice> slices_of(const std::vector<SpecCell>& cells) {
  std::vector<Slice> slices;
  const auto temperature_name = [](const SpecCell& cell) {
    return fmt::format("{}", cell.temperature);
  };
  for (const auto& [ignored, group] : group_cells(cells, temperature_name)) {
    const double temperature = group.front().temperature;
    slices.push_back({temperature, kAll, group});
    const auto subtasks =
        group_cells(group, [](const SpecCell& cell) { return subtask_of(cell.category); });
    if (subtasks.size() < 2) continue;
    for (const auto& [name, part] : subtasks) slices.push_back({temperature, name, part});
  }
  return slices;
}

/// Other engines may not say how often they checked.
void forget_rounds(Json& line) {
  for (const char* key : {"tau", "draft_each_ms", "check_each_ms"}) {
    for (const char* end : {"", "_low", "_high"}) line[std::string(key) + end] = nullptr;
  }
  line["drafted_per_check"] = nullptr;
}

/// What methods of a run are called: by their short names, whatever the model, where these tell
/// them apart; methods with several heads or codebooks keep their own.
std::map<std::string, std::string> names_of(const std::vector<std::string>& methods) {
  std::map<std::string, int> uses;
  for (const std::string& method : methods) ++uses[short_method_name(method)];
  std::map<std::string, std::string> names;
  for (const std::string& method : methods) {
    const std::string name = short_method_name(method);
    names[method] = uses[name] == 1 ? name : method;
  }
  return names;
}

void add_lines(const SpecFile& run, const std::vector<std::string>& methods,
               std::vector<Json>& lines) {
  std::vector<SpecCell> cells;
  for (const SpecFile::Line& line : run.lines) cells.push_back(line.cell);
  const std::map<std::string, std::string> names = names_of(methods);
  for (const Slice& slice : slices_of(cells)) {
    const std::vector<MethodSummary> summaries = summarize(slice.cells, methods);
    const Json numbers = json_of(summaries);
    for (const MethodSummary& summary : summaries) {
      if (summary.cells == 0) continue;
      Json line = {{"model", run.closing["model"]},
                   {"temperature", slice.temperature},
                   {"questions", slice.subtask},
                   {"method", names.at(summary.method)},
                   {"setting", summary.method}};
      line.update(numbers[summary.method]);
      line["checks"] = summary.rounds.rounds;
      if (summary.rounds.rounds == 0) forget_rounds(line);
      line["pass_ms"] = summaries.front().check_each_ms;
      line["pass_ms_low"] = summaries.front().check_range.low;
      line["pass_ms_high"] = summaries.front().check_range.high;
      lines.push_back(std::move(line));
    }
  }
}

double real(const Json& line, const char* key) {
  const Json value = line.value(key, Json());
  return value.is_number() ? value.get<double>() : NAN;
}

std::string ranged(const Json& line, const std::string& key) {
  return with_range(real(line, key.c_str()),
                    {real(line, (key + "_low").c_str()), real(line, (key + "_high").c_str())});
}

/// The values of a key, in order of first appearance.
std::vector<std::string> values_of(const std::vector<Json>& lines, const char* key) {
  std::vector<std::string> values;
  for (const Json& line : lines) {
    if (!line.contains(key)) continue;
    const std::string value =
        line[key].is_string() ? line[key].get<std::string>() : fmt::format("{}", real(line, key));
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

const Json* find_line(const std::vector<Json>& lines, const std::string& model,
                      const std::string& temperature, const std::string& questions,
                      const std::string& method) {
  for (const Json& line : lines) {
    const bool same = line.value("model", "") == model &&
                      line.value("questions", "") == questions &&
                      line.value("method", "") == method &&
                      fmt::format("{}", real(line, "temperature")) == temperature;
    if (same) return &line;
  }
  return nullptr;
}

std::vector<Json> without_closing(const std::vector<Json>& lines) {
  return {lines.begin(), lines.end() - 1};
}

std::string same_tokens_of(const Json& line) {
  MethodSummary counts;
  counts.cells = line["cells"];
  counts.unequal = line["unequal"];
  counts.failed = line["failed"];
  counts.claims_equal = line["claims_equal"];
  return same_tokens(counts);
}

/// Methods by models at one temperature.
Table overview(const std::vector<Json>& lines, const std::string& temperature) {
  Table table;
  const std::vector<std::string> models = values_of(lines, "model");
  table.caption = fmt::format("Temperature {}. {}", temperature, kTableNote);
  table.columns = {"method"};
  table.columns.insert(table.columns.end(), models.begin(), models.end());
  for (const std::string& method : values_of(lines, "method")) {
    std::vector<std::string>& row = table.rows.emplace_back(1, method);
    for (const std::string& model : models) {
      const Json* line = find_line(lines, model, temperature, kAll, method);
      row.push_back(!line ? "–"
                          : fmt::format("{}, tau {}", ranged(*line, "speedup"),
                                        number(real(*line, "tau"), 2)));
    }
  }
  return table;
}

Table times(const std::vector<Json>& lines) {
  Table table;
  table.caption = kTimesNote;
  table.columns = {"model", "T",        "method",   "tok/s",   "speed-up", "worst",      "tau",
                   "nodes", "draft ms", "check ms", "pass ms", "answers",  "same tokens"};
  for (const Json& line : lines) {
    if (line["questions"] != kAll) continue;
    table.rows.push_back({line["model"], fmt::format("{}", real(line, "temperature")),
                          line["method"], number(real(line, "tok_s"), 1), ranged(line, "speedup"),
                          number(real(line, "worst"), 2), ranged(line, "tau"),
                          number(real(line, "drafted_per_check"), 1), ranged(line, "draft_each_ms"),
                          ranged(line, "check_each_ms"), number(real(line, "pass_ms"), 2),
                          line["counted"].dump(), same_tokens_of(line)});
  }
  return table;
}

/// Speed-ups by kind of question.
Table subtasks(const std::vector<Json>& lines) {
  Table table;
  std::vector<std::string> kinds = values_of(lines, "questions");
  std::erase(kinds, kAll);
  if (kinds.empty()) return table;
  table.caption = "Speed-up by kind of question.";
  table.columns = {"model", "T", "method"};
  table.columns.insert(table.columns.end(), kinds.begin(), kinds.end());
  for (const Json& line : lines) {
    if (line["questions"] != kAll) continue;
    const std::string model = line["model"], method = line["method"];
    const std::string temperature = fmt::format("{}", real(line, "temperature"));
    auto& row = table.rows.emplace_back(std::vector<std::string>{model, temperature, method});
    for (const std::string& kind : kinds) {
      const Json* part = find_line(lines, model, temperature, kind, method);
      row.push_back(part ? number(real(*part, "speedup"), 2) : "–");
    }
  }
  return table;
}

std::string about(const Json& run) {
  std::string text = fmt::format("{}, {} questions", run.value("model", ""),
                                 run.value("questions", Json()).dump());
  for (const char* key : {"backend", "date", "commit"}) {
    if (run.contains(key)) text += fmt::format(" · {}", run[key].get<std::string>());
  }
  if (run.contains("machine") && run["machine"].is_object())
    text += " · " + run["machine"].value("processor", "");
  const Json engines = run.value("engines", Json::object());
  for (const auto& [engine, version] : engines.items())
    text += fmt::format(" · {} {}", engine, version.get<std::string>());
  if (run.value("partial", false)) text += " · stopped early";
  return text;
}

}  // namespace

std::vector<Json> field_lines(const std::vector<SpecFile>& runs) {
  std::vector<Json> lines;
  Json closing = {{"field", Json::array()}};
  std::set<std::string> models;
  for (const SpecFile& run : runs) {
    if (!run.closing.is_object() || !run.closing.contains("model"))
      fail("bench field: expected a closing line in each run, found one that was not finished");
    const std::string model = run.closing["model"];
    if (!models.insert(model).second)
      fail("bench field: expected one run of each model, found two of {}", model);
    const std::vector<std::string> methods = run.closing.at("settings").at("methods");
    add_lines(run, methods, lines);
    Json told = run.closing;
    for (const char* key : {"summary", "subtasks", "temperatures"}) told.erase(key);
    closing["field"].push_back(std::move(told));
  }
  lines.push_back(std::move(closing));
  return lines;
}

Report field_report(const std::vector<Json>& lines) {
  const std::vector<Json> entries = without_closing(lines);
  Report report{.kind = ReportKind::field,
                .title = "Talon: the methods of the field beside plain decoding",
                .subtitle = fmt::format("{} models, {} methods", values_of(entries, "model").size(),
                                        values_of(entries, "method").size()),
                .lines = lines};
  for (const Json& run : lines.back()["field"]) report.notes.push_back(about(run));
  for (const std::string& temperature : values_of(entries, "temperature")) {
    report.tables.push_back({"overview", overview(entries, temperature)});
  }
  report.tables.push_back({"times", times(entries)});
  if (Table table = subtasks(entries); !table.rows.empty())
    report.tables.push_back({"subtasks", std::move(table)});
  return report;
}

std::string field_markdown(const std::vector<Json>& lines) {
  std::string text;
  const Report report = field_report(lines);
  for (const Report::Part& part : report.tables) {
    text += fmt::format("{}\n\n{}\n", part.table.caption, markdown_of(part.table));
  }
  for (const std::string& note : report.notes) text += note + "\n\n";
  return text;
}

}  // namespace talon
