#include "trace/tree_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trace/round_tally.h"

namespace talon {
namespace {

int accepted_in(const TraceRound& round) { return static_cast<int>(round.accepted.size()) - 1; }

/// What is drawn of every round.
Json line_of(const TraceRound& round) {
  Json line = {{"sequence", round.sequence},     {"round", round.round},
               {"position", round.position},     {"drafted", round.tree.size() - 1},
               {"accepted", accepted_in(round)}, {"sequences", round.sequences},
               {"draft_ms", round.draft_ms},     {"check_ms", round.check_ms},
               {"other_ms", round.other_ms}};
  if (!round.experts.empty())
    line["experts"] = std::accumulate(round.experts.begin(), round.experts.end(), 0);
  return line;
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

Report tree_report(const Trace& trace, const std::string& name, int drawings) {
  Report report{.kind = ReportKind::tree, .title = "Drafted trees", .subtitle = name};
  RoundTally tally;
  for (const TraceRound& round : trace.rounds) {
    report.lines.push_back(line_of(round));
    tally.add(report_of(round));
  }
  if (tally.expert_checks > 0)
    report.subtitle += fmt::format(", {:.1f} experts read per check", tally.experts_per_check());
  report.more["about"] = trace.about;
  report.more["trees"] = Json::array();
  for (const std::size_t round : rounds_to_draw(trace, drawings))
    report.more["trees"].push_back(json_of(trace.rounds[round]));
  return report;
}

}  // namespace talon
