#include "bench/simulate/machine_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>

#include "core/error.h"
#include "io/json_text.h"
#include "io/quote.h"

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
  if (curve.pass_row_ms < 0) {
    fail("{}: expected pass_row_ms of at least 0, found {}", doing, curve.pass_row_ms);
  }
  if (curve.first_pass_ms < 0) {
    fail("{}: expected first_pass_ms of at least 0, found {}", doing, curve.first_pass_ms);
  }
  if (!(curve.expert_ms >= 0)) {
    fail("{}: expected expert_ms of at least 0, found {}", doing, curve.expert_ms);
  }
  if (curve.batch < 1 || curve.batch > 4096) fail("{}: expected a batch from 1 to 4096", doing);
}

constexpr std::string_view kCurveKeys[] = {"name",    "source",      "checks",
                                           "pass_ms", "pass_row_ms", "first_pass_ms",
                                           "rest_ms", "batch",       "expert_ms"};

void require_known_keys(const Json& json, const std::string& doing) {
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kCurveKeys, key) == std::end(kCurveKeys))
      fail("{}: expected keys among {}, found {}", doing, fmt::join(kCurveKeys, ", "), quote(key));
  }
}

MachineCurve parse_curve(const Json& json, const std::string& doing) {
  require_known_keys(json, doing);
  MachineCurve curve;
  try {
    curve.source = json.value("source", "");
    for (const Json& check : json.at("checks"))
      curve.checks.emplace_back(check.at(0).get<int>(), check.at(1).get<double>());
    curve.name = json.value("name", "");
    curve.pass_ms = json.value("pass_ms", -1.0);
    curve.pass_row_ms = json.value("pass_row_ms", 0.0);
    curve.first_pass_ms = json.value("first_pass_ms", 0.0);
    curve.rest_ms = json.value("rest_ms", 0.0);
    curve.batch = json.value("batch", 1);
    curve.expert_ms = json.value("expert_ms", 0.0);
  } catch (const Json::exception& error) {
    fail("{}: expected a cost curve: {}", doing, error.what());
  }
  return curve;
}

/// The lines of `talon bench cost` that have rows.
MachineCurve parse_cost_lines(const std::vector<Json>& lines, const std::string& doing) {
  MachineCurve curve;
  curve.source = "talon bench cost";
  std::map<int, double> ms;
  for (const Json& line : lines) {
    if (!line.contains("rows")) continue;
    if (!line["rows"].is_number_integer() || !line.contains("ms") || !line["ms"].is_number())
      fail("{}: expected numbers \"rows\" and \"ms\"", doing);
    ms.try_emplace(line["rows"].get<int>(), line["ms"].get<double>());
  }
  curve.checks.assign(ms.begin(), ms.end());
  return curve;
}

MachineCurve read_curve(const std::filesystem::path& file) {
  const std::string doing = "read cost curve " + file.string();
  std::ifstream input(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(input)), {});
  if (!input && !input.eof()) fail("{}: cannot read it", doing);
  MachineCurve curve;
  if (const Json whole = Json::parse(text, nullptr, false); !whole.is_discarded()) {
    curve = parse_curve(parse_json(text, doing), doing);
  } else {
    std::vector<Json> lines;
    std::size_t first = 0;
    while (first < text.size()) {
      const std::size_t end = std::min(text.find('\n', first), text.size());
      if (end > first) lines.push_back(parse_json(text.substr(first, end - first), doing));
      first = end + 1;
    }
    curve = parse_cost_lines(lines, doing);
  }
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
      {"laptop-1b",
       "measured once, with kernels that are not in the repository: products alone of Llama 3.2 "
       "1B's shape in 4-bit groups of 128, 2 Zen 4 cores; a pass and the rest are estimates",
       {{1, 10.7},
        {2, 12.9},
        {4, 14.2},
        {8, 24.5},
        {12, 35.8},
        {16, 49.6},
        {24, 74.3},
        {32, 98.3},
        {64, 199}},
       1.6,
       2.0},
      {"llamacpp-1b",
       "measured once, by llama-batched-bench of llama.cpp de3ff81: Llama 3.2 1B's shape in Q4_0, "
       "all logits, 2 Zen 4 cores; a pass by its llama-speculative-simple, a Q4_0 head",
       {{1, 22.8}, {2, 45.5}, {4, 72.5}, {8, 123}, {12, 178}, {16, 193}, {24, 310}, {32, 379}},
       4.2,
       0},
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
