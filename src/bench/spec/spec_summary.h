#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/spec/spec_cell.h"
#include "trace/statistics.h"

namespace talon {

/// What a method's cells say together. Means weigh all questions alike, as in Spec-Bench; intervals
/// come from a paired bootstrap over questions. Numbers are NaN where nothing counts.
struct MethodSummary {
  std::string method;
  int cells = 0;    // of the method
  int counted = 0;  // cells in the means: beside a plain answer, equal or not meant to be
  int unequal = 0;
  int failed = 0;  // without an answer
  bool claims_equal = true;

  double tok_s = 0;    // mean of the questions' tokens per second after the prefill
  double speedup = 0;  // over plain decoding's mean on the same questions
  Interval speedup_range;
  double wall_tok_s = 0;  // mean of the questions' tokens per second, the prefill included
  double wall_speedup = 0;
  Interval wall_speedup_range;
  double worst = 0;  // least speed-up of any question
  double tau = 0;    // tokens per check, over all checks
  Interval tau_range;
  double draft_each_ms = 0, check_each_ms = 0;  // of a round
  Interval draft_range, check_range;

  double prefill_ms = 0, decode_ms = 0, draft_ms = 0, check_ms = 0;  // sums over counted cells
  long prompt_tokens = 0;                                            // sum over counted cells
  RoundTally rounds;

  /// Whether every answer was given and has the tokens of plain decoding.
  bool equal() const { return unequal == 0 && failed == 0; }
  double other_ms() const { return decode_ms - draft_ms - check_ms; }
  double prefill_tok_s() const {
    return prefill_ms > 0 ? static_cast<double>(prompt_tokens) / prefill_ms * 1000 : 0;
  }
};

/// One summary per method, in the order of `methods`, of which the first is plain decoding.
std::vector<MethodSummary> summarize(std::span<const SpecCell> cells,
                                     const std::vector<std::string>& methods);

/// The cells for which `key` is the same, by that key, in order of first appearance.
std::vector<std::pair<std::string, std::vector<SpecCell>>> group_cells(
    std::span<const SpecCell> cells, const std::function<std::string(const SpecCell&)>& key);

/// {METHOD: {"tok_s", "speedup", "tau", "equal", "worst", ...}}; docs/benchmarks.md lists all.
Json json_of(const std::vector<MethodSummary>& summaries);

}  // namespace talon
