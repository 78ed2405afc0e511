#include "bench/spec/spec_summary.h"

#include <algorithm>
#include <limits>
#include <map>

namespace talon {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The cells of one question: what the bootstrap draws.
struct QuestionSums {
  int counted = 0;
  double plain = 0, method = 0;                                 // sums of tok/s over the same cells
  double wall_plain = 0, wall_method = 0;                       // the same, the prefill included
  double accepted = 0, rounds = 0, draft_ms = 0, check_ms = 0;  // of all repeats
};

using Sum = double QuestionSums::*;

double ratio(std::span<const QuestionSums> questions, std::span<const std::size_t> drawn, Sum top,
             Sum bottom) {
  double above = 0, below = 0;
  for (const std::size_t i : drawn) {
    above += questions[i].*top;
    below += questions[i].*bottom;
  }
  return below > 0 ? above / below : kNone;
}

Interval range_of(std::span<const QuestionSums> questions, Sum top, Sum bottom) {
  return bootstrap(questions.size(), [&](std::span<const std::size_t> drawn) {
    return ratio(questions, drawn, top, bottom);
  });
}

void add_cell(MethodSummary& summary, QuestionSums& sums, const SpecCell& cell,
              const SpecCell& plain) {
  const double speed = spread_of(cell.tok_s).median;
  const double plain_speed = spread_of(plain.tok_s).median;
  if (!(speed > 0) || !(plain_speed > 0)) return;  // an answer of one token has no speed
  ++summary.counted;
  ++sums.counted;
  sums.method += speed;
  sums.plain += plain_speed;
  sums.wall_method += spread_of(cell.wall_tok_s).median;
  sums.wall_plain += spread_of(plain.wall_tok_s).median;
  sums.accepted += cell.rounds.accepted;
  sums.rounds += cell.rounds.rounds;
  const auto repeats = static_cast<double>(cell.tok_s.size());
  sums.draft_ms += cell.draft_ms * repeats;
  sums.check_ms += cell.check_ms * repeats;
  summary.worst = std::min(summary.worst, speed / plain_speed);
  summary.prompt_tokens += cell.prompt_tokens;
  summary.prefill_ms += cell.prefill_ms;
  summary.decode_ms += cell.decode_ms;
  summary.draft_ms += cell.draft_ms;
  summary.check_ms += cell.check_ms;
  summary.rounds.add(cell.rounds);
}

void finish(MethodSummary& summary, const std::vector<QuestionSums>& questions) {
  if (summary.counted == 0) {
    for (double* value :
         {&summary.tok_s, &summary.speedup, &summary.wall_tok_s, &summary.wall_speedup,
          &summary.worst, &summary.tau, &summary.draft_each_ms, &summary.check_each_ms})
      *value = kNone;
    for (Interval* range : {&summary.speedup_range, &summary.wall_speedup_range, &summary.tau_range,
                            &summary.draft_range, &summary.check_range})
      *range = {kNone, kNone};
    return;
  }
  QuestionSums all;
  for (const QuestionSums& sums : questions) {
    all.plain += sums.plain;
    all.method += sums.method;
    all.wall_plain += sums.wall_plain;
    all.wall_method += sums.wall_method;
    all.rounds += sums.rounds;
    all.draft_ms += sums.draft_ms;
    all.check_ms += sums.check_ms;
  }
  summary.tok_s = all.method / summary.counted;
  summary.wall_tok_s = all.wall_method / summary.counted;
  summary.speedup = all.method / all.plain;
  summary.wall_speedup = all.wall_plain > 0 ? all.wall_method / all.wall_plain : kNone;
  summary.speedup_range = range_of(questions, &QuestionSums::method, &QuestionSums::plain);
  summary.wall_speedup_range =
      range_of(questions, &QuestionSums::wall_method, &QuestionSums::wall_plain);
  summary.tau = summary.rounds.tau();
  summary.tau_range = range_of(questions, &QuestionSums::accepted, &QuestionSums::rounds);
  ++summary.tau_range.low;
  ++summary.tau_range.high;
  const auto each = [&](double ms) { return all.rounds > 0 ? ms / all.rounds : kNone; };
  summary.draft_each_ms = each(all.draft_ms);
  summary.check_each_ms = each(all.check_ms);
  summary.draft_range = range_of(questions, &QuestionSums::draft_ms, &QuestionSums::rounds);
  summary.check_range = range_of(questions, &QuestionSums::check_ms, &QuestionSums::rounds);
}

}  // namespace

std::vector<MethodSummary> summarize(std::span<const SpecCell> cells,
                                     const std::vector<std::string>& methods) {
  std::map<std::string, const SpecCell*> plain;  // by condition
  for (const SpecCell& cell : cells) {
    if (cell.method == methods.front() && cell.error.empty()) plain[condition_of(cell)] = &cell;
  }
  std::vector<MethodSummary> summaries;
  for (const std::string& method : methods) {
    MethodSummary summary;
    summary.method = method;
    summary.worst = std::numeric_limits<double>::infinity();
    std::map<std::string, std::size_t> index;  // by question
    std::vector<QuestionSums> questions;
    for (const SpecCell& cell : cells) {
      if (cell.method != method) continue;
      ++summary.cells;
      summary.claims_equal = summary.claims_equal && cell.claims_equal;
      summary.failed += !cell.error.empty();
      summary.unequal += cell.error.empty() && !cell.equal;
      const auto beside = plain.find(condition_of(cell));
      if (!cell.counts() || beside == plain.end()) continue;
      const std::string question = cell.question_id.dump() + cell.category;
      const auto [entry, is_new] = index.try_emplace(question, questions.size());
      if (is_new) questions.emplace_back();
      add_cell(summary, questions[entry->second], cell, *beside->second);
    }
    std::erase_if(questions, [](const QuestionSums& sums) { return sums.counted == 0; });
    finish(summary, questions);
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<std::pair<std::string, std::vector<SpecCell>>> group_cells(
    std::span<const SpecCell> cells, const std::function<std::string(const SpecCell&)>& key) {
  std::vector<std::pair<std::string, std::vector<SpecCell>>> groups;
  for (const SpecCell& cell : cells) {
    const std::string name = key(cell);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& entry) { return entry.first == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.push_back(cell);
  }
  return groups;
}

Json json_of(const std::vector<MethodSummary>& summaries) {
  Json json = Json::object();
  for (const MethodSummary& summary : summaries) {
    const double checks = summary.counted > 0 ? std::max(1, summary.rounds.rounds) : kNone;
    json[summary.method] = {{"tok_s", summary.tok_s},
                            {"speedup", summary.speedup},
                            {"speedup_low", summary.speedup_range.low},
                            {"speedup_high", summary.speedup_range.high},
                            {"tau", summary.tau},
                            {"tau_low", summary.tau_range.low},
                            {"tau_high", summary.tau_range.high},
                            {"draft_each_ms", summary.draft_each_ms},
                            {"draft_each_ms_low", summary.draft_range.low},
                            {"draft_each_ms_high", summary.draft_range.high},
                            {"check_each_ms", summary.check_each_ms},
                            {"check_each_ms_low", summary.check_range.low},
                            {"check_each_ms_high", summary.check_range.high},
                            {"equal", summary.equal()},
                            {"worst", summary.worst},
                            {"wall_tok_s", summary.wall_tok_s},
                            {"wall_speedup", summary.wall_speedup},
                            {"wall_speedup_low", summary.wall_speedup_range.low},
                            {"wall_speedup_high", summary.wall_speedup_range.high},
                            {"cells", summary.cells},
                            {"counted", summary.counted},
                            {"unequal", summary.unequal},
                            {"failed", summary.failed},
                            {"claims_equal", summary.claims_equal},
                            {"drafted_per_check", summary.rounds.drafted / checks},
                            {"prefill_tok_s", summary.prefill_tok_s()},
                            {"prefill_ms", summary.prefill_ms},
                            {"decode_ms", summary.decode_ms},
                            {"draft_ms", summary.draft_ms},
                            {"check_ms", summary.check_ms}};
  }
  return json;
}

}  // namespace talon
