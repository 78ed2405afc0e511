#include "bench/simulate/machine_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "io/quote.h"
#include "trace/field_reader.h"

namespace talon {
namespace {

constexpr double kLeastShare = 0.1;  // of a check that was measured: no other is cheaper

/// A step that reads all weights in `step_ms`, and `row_ms` of arithmetic for each further row.
std::vector<std::pair<int, double>> straight(double step_ms, double row_ms) {
  std::vector<std::pair<int, double>> checks;
  for (int rows = 1; rows <= 4096; rows *= 2)
    checks.emplace_back(rows, step_ms + row_ms * (rows - 1));
  return checks;
}

MachineCurve h200(int batch) {
  // A step: 186 tok/s, reported of Qwen3-8B. A row: 16.4 GFLOP, assumed at 600 TFLOP/s. A pass: by
  // its weights, 8 passes of Llama 3.1 8B's EAGLE-3 head read 0.38 of the target's.
  constexpr double kStepMs = 1000.0 / 186;
  MachineCurve curve;
  curve.name = batch == 1 ? "h200-8b" : "h200-8b-batch32";
  curve.source =
      "assumed: a step at the 186 tok/s reported for Qwen3-8B in SGLang (SafeAILab/EAGLE issue "
      "203), rows at 600 TFLOP/s, passes by their weights";
  curve.checks = straight(kStepMs, 16.4 / 600);
  curve.pass_ms = kStepMs * 0.38 / 8;
  curve.batch = batch;
  return curve;
}

/// For each number of rows, ascending.
CostProfile mean_checks(std::span<const CostProfile::Check> checks) {
  struct Sum {
    double ms = 0, experts = 0;
    int count = 0;
  };
  std::map<int, Sum> sums;
  for (const auto& check : checks) {
    Sum& sum = sums[check.rows];
    sum.ms += check.ms;
    sum.experts += check.experts;
    ++sum.count;
  }
  CostProfile means;
  for (const auto& [rows, sum] : sums)
    means.checks.push_back({rows, 0, sum.ms / sum.count, sum.experts / sum.count});
  return means;
}

void check_curve(const MachineCurve& curve, const std::string& doing) {
  if (curve.checks.empty()) fail("{}: expected at least one [rows, ms]", doing);
  int before = 0;
  for (const auto& [rows, ms] : curve.checks) {
    if (rows <= before || !(ms > 0)) {
      fail("{}: expected ascending rows with positive milliseconds, found [{}, {}]", doing, rows,
           ms);
    }
    before = rows;
  }
}

constexpr std::string_view kCurveKeys[] = {"name",    "source",      "checks",
                                           "pass_ms", "pass_row_ms", "first_pass_ms",
                                           "rest_ms", "batch",       "expert_ms"};

void require_known_keys(const Json& json, const std::string& doing) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kCurveKeys, key) == std::end(kCurveKeys))
      fail("{}: expected keys among {}, found {}", doing, fmt::join(kCurveKeys, ", "), quote(key));
  }
}

constexpr int kMostCurveRows = 1 << 20;

MachineCurve parse_curve(const std::string& text, const std::string& doing) {
  const FieldReader fields(doing, text);
  require_known_keys(fields.json(), doing);
  MachineCurve curve;
  curve.name = fields.text_or("name", "");
  curve.source = fields.text_or("source", "");
  for (const Json& check : fields.list("checks")) {
    if (!check.is_array() || check.size() != 2) fields.refuse("checks", "[rows, ms]", check);
    curve.checks.emplace_back(static_cast<int>(fields.whole(check[0], "checks", 1, kMostCurveRows)),
                              fields.number(check[1], "checks"));
  }
  const auto read_ms = [&](const char* key, double& ms) {
    if (!fields.json().contains(key)) return;
    ms = fields.number(key);
    if (ms < 0) fields.refuse(key, "at least 0");
  };
  read_ms("pass_ms", curve.pass_ms);
  read_ms("pass_row_ms", curve.pass_row_ms);
  read_ms("first_pass_ms", curve.first_pass_ms);
  read_ms("rest_ms", curve.rest_ms);
  read_ms("expert_ms", curve.expert_ms);
  if (fields.json().contains("batch"))
    curve.batch = static_cast<int>(fields.whole(fields.at("batch"), "batch", 1, 4096));
  return curve;
}

/// The lines of `talon bench cost` that have rows.
MachineCurve parse_cost_lines(const std::string& text, const std::string& doing) {
  MachineCurve curve;
  curve.source = "talon bench cost";
  std::map<int, double> ms;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const FieldReader fields(fmt::format("{}, line {}", doing, number), line);
    if (!fields.json().contains("rows")) continue;
    const auto rows = fields.whole(fields.at("rows"), "rows", 1, kMostCurveRows);
    ms.try_emplace(static_cast<int>(rows), fields.number("ms"));
  }
  curve.checks.assign(ms.begin(), ms.end());
  return curve;
}

MachineCurve read_curve(const std::filesystem::path& file) {
  const std::string doing = "read cost curve " + file.string();
  std::ifstream input(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(input)), {});
  if (!input && !input.eof()) fail("{}: cannot read it", doing);
  MachineCurve curve =
      Json::accept(text) ? parse_curve(text, doing) : parse_cost_lines(text, doing);
  check_curve(curve, doing);
  if (curve.name.empty()) curve.name = file.filename().string();
  return curve;
}

}  // namespace

double MachineCurve::check_ms(int rows, double further_experts) const {
  const double experts_ms = expert_ms * further_experts;
  if (checks.size() == 1) return checks.front().second * rows / checks.front().first + experts_ms;
  auto above = std::lower_bound(checks.begin(), checks.end(), rows,
                                [](const auto& check, int wanted) { return check.first < wanted; });
  above = std::clamp(above, checks.begin() + 1, checks.end() - 1);
  const auto below = above - 1;
  const double slope = std::max(0.0, above->second - below->second) / (above->first - below->first);
  const double ms = below->second + slope * (rows - below->first);
  return std::max(ms, checks.front().second * kLeastShare) + experts_ms;
}

CostProfile MachineCurve::profile(const RecordedExperts& experts) const {
  CostProfile profile;
  for (const auto& [rows, ms] : checks) profile.checks.push_back({rows, 0, ms});
  if (!experts.empty() && expert_ms > 0) {  // which rows do not add evenly
    profile.expert_ms = expert_ms;
    profile.checks.clear();
    for (int rows = 1; rows <= 32; rows *= 2) {
      const double read = experts.of(rows);
      profile.checks.push_back({rows, 0, check_ms(rows, read - experts.of(1)), read});
    }
  }
  constexpr int kMostRows = 128;  // of a pass
  if (pass_ms > 0) {
    profile.levels = {{1, pass_ms}, {kMostRows, pass_ms + pass_row_ms * (kMostRows - 1)}};
    profile.first_pass_ms = first_pass_ms;
  }
  return profile;
}

const std::vector<MachineCurve>& built_in_curves() {
  static const std::vector<MachineCurve> kCurves = {
      h200(1),
      h200(32),
      {.name = "laptop-1b",
       .source =
           "measured once, with kernels that are not in the repository: products alone of Llama "
           "3.2 "
           "1B's shape in 4-bit groups of 128, 2 Zen 4 cores; a pass and the rest are estimates",
       .checks = {{1, 10.7},
                  {2, 12.9},
                  {4, 14.2},
                  {8, 24.5},
                  {12, 35.8},
                  {16, 49.6},
                  {24, 74.3},
                  {32, 98.3},
                  {64, 199}},
       .pass_ms = 1.6,
       .rest_ms = 2.0},
      {.name = "llamacpp-1b",
       .source = "measured once, by llama-batched-bench of llama.cpp de3ff81: Llama 3.2 1B's shape "
                 "in Q4_0, "
                 "all logits, 2 Zen 4 cores; a pass by its llama-speculative-simple, a Q4_0 head",
       .checks =
           {{1, 22.8}, {2, 45.5}, {4, 72.5}, {8, 123}, {12, 178}, {16, 193}, {24, 310}, {32, 379}},
       .pass_ms = 4.2},
  };
  return kCurves;
}

MachineCurve find_curve(const std::string& name) {
  std::string names;
  for (const MachineCurve& curve : built_in_curves()) {
    if (curve.name == name) return curve;
    names += names.empty() ? curve.name : ", " + curve.name;
  }
  if (std::filesystem::is_regular_file(name)) return read_curve(name);
  throw UsageError(
      fmt::format("--machine: expected a file, recorded, or one of {}; found \"{}\"", names, name));
}

MachineCurve recorded_curve(const Trace& trace) {
  std::vector<CostProfile::Check> checks;  // of each round
  double rest = 0;
  for (const TraceRound& round : trace.rounds) {
    if (round.sequences != 1) continue;
    const double experts = std::accumulate(round.experts.begin(), round.experts.end(), 0.0);
    checks.push_back({round.tree.size(), 0, round.check_ms, experts});
    rest += round.other_ms;
  }
  if (checks.empty()) fail("the trace has no round of a single sequence to take costs from");
  CostProfile means = mean_checks(checks);
  price_experts(means, checks);
  MachineCurve curve;
  curve.name = "recorded";
  curve.source = "the trace's own checks";
  curve.expert_ms = means.expert_ms;
  const double one_row = RecordedExperts(trace).of(1);
  double most = 0;
  for (const auto& check : means.checks) {
    const double shared_ms = check.ms - curve.expert_ms * (check.experts - one_row);
    most = std::max({most, shared_ms, kLeastShare * check.ms});  // more rows are never cheaper
    curve.checks.emplace_back(check.rows, most);
  }
  curve.rest_ms = rest / static_cast<double>(trace.rounds.size());
  return curve;
}

}  // namespace talon
