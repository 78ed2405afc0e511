#include "bench/spec/spec_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace talon {

std::string same_tokens(const MethodSummary& summary) {
  if (summary.cells == 0) return "–";
  if (summary.equal()) return "yes";
  std::string text;
  if (summary.unequal > 0)
    text = fmt::format("{}{} of {} differ", summary.claims_equal ? "NO: " : "", summary.unequal,
                       summary.cells);
  if (summary.failed > 0)
    text += fmt::format("{}{} failed", text.empty() ? "" : ", ", summary.failed);
  return text;
}

std::string with_range(double value, const Interval& range) {
  if (!std::isfinite(range.low) || range.low == range.high) return number(value, 2);
  return fmt::format("{} [{}, {}]", number(value, 2), number(range.low, 2), number(range.high, 2));
}

Table spec_table(std::span<const MethodSummary> summaries) {
  Table table;
  table.columns = {"method",         "tok/s", "speed-up",          "with prefill",
                   "worst question", "tau",   "drafted per check", "same tokens"};
  for (const MethodSummary& s : summaries) {
    const bool told = s.rounds.rounds > 0;  // some engines do not say how many checks they made
    table.rows.push_back(
        {s.method, number(s.tok_s, 1), with_range(s.speedup, s.speedup_range),
         with_range(s.wall_speedup, s.wall_speedup_range), number(s.worst, 2),
         told ? with_range(s.tau, s.tau_range) : "–",
         told ? number(static_cast<double>(s.rounds.drafted) / s.rounds.rounds, 1) : "–",
         same_tokens(s)});
  }
  return table;
}

std::string spec_subtitle(const Json& closing) {
  std::string text;
  const auto append = [&](const Json& value) {
    text +=
        (text.empty() ? "" : " · ") + (value.is_string() ? value.get<std::string>() : value.dump());
  };
  if (closing.contains("questions")) append(closing["questions"].dump() + " questions");
  for (const char* key : {"model", "backend", "date", "commit"}) {
    if (closing.contains(key)) append(closing[key]);
  }
  if (closing.contains("machine") && closing["machine"].is_object())
    append(closing["machine"].value("processor", ""));
  return text;
}

std::string spec_bound(const MethodSummary& plain, const Json& closing) {
  const double bandwidth = closing.value("bandwidth_gb_s", 0.0);
  const double bytes = closing.value("weights_bytes", 0.0);
  if (!(bandwidth > 0) || !(bytes > 0) || !(plain.tok_s > 0)) return "";
  const double most = bandwidth * 1e9 / bytes;
  return fmt::format(
      "Bound: reading {:.1f} MB of weights for each token at the {:.1f} GB/s ({:.1f}-{:.1f}) that "
      "memory gave during the run allows {:.0f} tok/s; plain decoding reached {:.0f} % of it{}.",
      bytes / 1e6, bandwidth, closing.value("bandwidth_gb_s_least", bandwidth),
      closing.value("bandwidth_gb_s_most", bandwidth), most, 100 * plain.tok_s / most,
      plain.tok_s > most ? ", for a cache held part of them" : "");
}

std::string spec_markdown(std::span<const MethodSummary> summaries, const Json& closing) {
  std::string text = markdown_of(spec_table(summaries));
  text += fmt::format("\n{}\n\n", kSpecTableNote);
  if (!summaries.empty()) {
    const std::string bound = spec_bound(summaries.front(), closing);
    if (!bound.empty()) text += bound + "\n\n";
  }
  return text + spec_subtitle(closing) + "\n";
}

Table temperature_table(std::span<const SpecCell> cells, const std::vector<std::string>& methods) {
  std::map<double, std::vector<SpecCell>> by_temperature;
  for (const SpecCell& cell : cells) by_temperature[cell.temperature].push_back(cell);
  Table table;
  if (by_temperature.size() < 2) return table;
  table.columns = {"method"};
  for (const std::string& method : methods) table.rows.push_back({method});
  for (const auto& [temperature, group] : by_temperature) {
    table.columns.push_back(fmt::format("T {}", temperature));
    const std::vector<MethodSummary> summaries = summarize(group, methods);
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const MethodSummary& s = summaries[i];
      table.rows[i].push_back(fmt::format(
          "{}, tau {}, worst {}{}", with_range(s.speedup, s.speedup_range), number(s.tau, 2),
          number(s.worst, 2), s.equal() ? "" : ", " + same_tokens(s)));
    }
  }
  return table;
}

}  // namespace talon
