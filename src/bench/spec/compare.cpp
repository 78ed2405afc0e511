#include "bench/spec/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "bench/spec/spec_cell.h"
#include "core/error.h"
#include "io/json_text.h"

namespace talon {
namespace {

/// Of fewer, all fall on one side by chance more than once in twenty times.
constexpr std::size_t kFewestPairs = 6;

using Cells = std::map<std::string, SpecCell>;  // by condition
using Methods = std::map<std::string, Cells>;

Methods by_method(const SpecFile& file) {
  Methods methods;
  for (const SpecFile::Line& line : file.lines)
    methods[line.cell.method][condition_of(line.cell)] = line.cell;
  return methods;
}

const SpecCell* find(const Methods& methods, const std::string& method,
                     const std::string& condition) {
  const auto cells = methods.find(method);
  if (cells == methods.end()) return nullptr;
  const auto cell = cells->second.find(condition);
  return cell == cells->second.end() ? nullptr : &cell->second;
}

double speed_of(const SpecCell& cell) { return spread_of(cell.tok_s).median; }

/// What enters a mean of ratios: `top` over `bottom` summed over questions.
struct Share {
  double top = 0, bottom = 0;
};

/// Nothing (bottom 0) if the cell does not count.
Share share_of(const Methods& run, const SpecCell& cell, CompareMetric metric) {
  if (!cell.counts()) return {};
  if (metric == CompareMetric::tau)
    return {static_cast<double>(cell.rounds.rounds + cell.rounds.accepted),
            static_cast<double>(cell.rounds.rounds)};
  if (metric == CompareMetric::tok_s) return {speed_of(cell), speed_of(cell) > 0 ? 1.0 : 0.0};
  const SpecCell* plain = find(run, "none", condition_of(cell));
  if (!plain || !plain->error.empty()) return {};
  return {speed_of(cell), speed_of(*plain)};
}

struct Pair {
  Share before, after;
};

double mean_ratio(std::span<const Pair> pairs, std::span<const std::size_t> drawn,
                  Share Pair::*side) {
  Share sum;
  for (const std::size_t i : drawn) {
    sum.top += (pairs[i].*side).top;
    sum.bottom += (pairs[i].*side).bottom;
  }
  return sum.bottom > 0 ? sum.top / sum.bottom : std::numeric_limits<double>::quiet_NaN();
}

std::string name_of(CompareMetric metric) {
  return metric == CompareMetric::tau     ? "tau"
         : metric == CompareMetric::tok_s ? "tok_s"
                                          : "speedup";
}

Change compare_method(const Methods& before, const Methods& after, const std::string& method,
                      CompareMetric metric) {
  Change change;
  change.name = method;
  change.metric = name_of(metric);
  std::map<std::string, Pair> by_question;
  for (const auto& [condition, old_cell] : before.at(method)) {
    const SpecCell* new_cell = find(after, method, condition);
    if (!new_cell) continue;
    const bool was_fine = old_cell.error.empty() && (old_cell.equal || !old_cell.claims_equal);
    change.broken += was_fine && !new_cell->counts();
    const Share one = share_of(before, old_cell, metric), two = share_of(after, *new_cell, metric);
    if (!(one.bottom > 0) || !(two.bottom > 0)) continue;
    Pair& pair = by_question[old_cell.question_id.dump() + old_cell.category];
    pair.before.top += one.top;
    pair.before.bottom += one.bottom;
    pair.after.top += two.top;
    pair.after.bottom += two.bottom;
  }
  std::vector<Pair> pairs;
  std::vector<std::size_t> all;
  for (const auto& [question, pair] : by_question) {
    all.push_back(pairs.size());
    pairs.push_back(pair);
  }
  change.pairs = static_cast<int>(pairs.size());
  change.before = mean_ratio(pairs, all, &Pair::before);
  change.after = mean_ratio(pairs, all, &Pair::after);
  change.ratio = change.after / change.before;
  change.is_known = pairs.size() >= kFewestPairs;
  change.ratio_range = bootstrap(pairs.size(), [&](std::span<const std::size_t> drawn) {
    return mean_ratio(pairs, drawn, &Pair::after) / mean_ratio(pairs, drawn, &Pair::before);
  });
  return change;
}

std::vector<Change> compare_spec(const std::filesystem::path& before_file,
                                 const std::filesystem::path& after_file, CompareMetric metric) {
  const Methods before = by_method(read_spec_file(before_file));
  const Methods after = by_method(read_spec_file(after_file));
  std::vector<Change> changes;
  for (const auto& [method, cells] : before) {
    if (!after.contains(method)) continue;
    Change change = compare_method(before, after, method, metric);
    if (change.pairs > 0 || change.broken > 0) changes.push_back(std::move(change));
  }
  return changes;
}

/// A measured line of another bench: its spread, by what it is about.
std::map<std::string, Spread> read_spreads(const std::filesystem::path& file) {
  std::ifstream input = open_results(file);
  static const std::set<std::string> kAbout = {"rows",  "context", "kernels", "model",
                                               "shape", "op",      "format",  "layout"};
  std::map<std::string, Spread> spreads;
  int number = 0;
  for (std::string text; std::getline(input, text);) {
    ++number;
    if (text.empty()) continue;
    const std::string doing = fmt::format("read results {}, line {}", file.string(), number);
    const Json json = parse_json(text, doing);
    if (!json.is_object() || !json.contains("rows") || !json.contains("ms")) continue;
    std::string name;
    for (const auto& [key, value] : json.items()) {
      if (kAbout.contains(key))
        name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key,
                            value.is_string() ? value.get<std::string>() : value.dump());
    }
    try {
      const double ms = json["ms"];
      spreads[name] = {ms, json.value("ms_least", ms), json.value("ms_most", ms)};
    } catch (const Json::exception&) {
      fail("{}: expected numbers \"ms\", \"ms_least\" and \"ms_most\"", doing);
    }
  }
  return spreads;
}

std::vector<Change> compare_spreads(const std::filesystem::path& before_file,
                                    const std::filesystem::path& after_file) {
  const auto before = read_spreads(before_file), after = read_spreads(after_file);
  std::vector<Change> changes;
  for (const auto& [name, old_ms] : before) {
    const auto found = after.find(name);
    if (found == after.end()) continue;
    const Spread& new_ms = found->second;
    if (!(old_ms.least > 0) || !(new_ms.least > 0)) continue;
    Change change;
    change.name = name;
    change.metric = "ms";
    change.before = old_ms.median;
    change.after = new_ms.median;
    change.ratio = new_ms.median / old_ms.median;
    change.ratio_range = {new_ms.least / old_ms.most, new_ms.most / old_ms.least};
    change.pairs = 1;
    change.lower_is_better = true;
    changes.push_back(std::move(change));
  }
  return changes;
}

bool is_spec(const std::filesystem::path& file) {
  std::ifstream input = open_results(file);
  std::string line;
  std::getline(input, line);
  const Json first = Json::parse(line, nullptr, false);
  return first.is_object() && (first.contains("question_id") || first.contains("summary"));
}

}  // namespace

bool Change::worse(double tolerance) const {
  if (!is_known) return false;
  return lower_is_better ? ratio_range.low > 1 + tolerance : ratio_range.high < 1 - tolerance;
}

bool Change::better(double tolerance) const {
  if (!is_known) return false;
  return lower_is_better ? ratio_range.high < 1 - tolerance : ratio_range.low > 1 + tolerance;
}

std::vector<Change> compare_results(const std::filesystem::path& before,
                                    const std::filesystem::path& after, CompareMetric metric) {
  const bool spec = is_spec(before);
  if (spec != is_spec(after)) {
    fail("compare {} and {}: expected results of the same bench", before.string(), after.string());
  }
  std::vector<Change> changes =
      spec ? compare_spec(before, after, metric) : compare_spreads(before, after);
  if (changes.empty()) {
    fail("compare {} and {}: expected something that both measured, found nothing", before.string(),
         after.string());
  }
  return changes;
}

}  // namespace talon
