#include "bench/load/load_summary.h"

#include <algorithm>
#include <map>

namespace talon {
namespace {

std::vector<double> gaps_of(const LoadAnswer& answer) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < answer.pieces.size(); ++i) {
    gaps.push_back(answer.pieces[i] - answer.pieces[i - 1]);
  }
  return gaps;
}

/// The slice ended before it got any text.
bool is_waiting(const LoadAnswer& answer) {
  return answer.pieces.empty() && !answer.is_whole && answer.error.empty();
}

/// Times from questions to the first text, and those of the questions that wait for it still.
struct FirstTexts {
  std::vector<double> came, waited;

  /// A wait that goes on is no shorter than what is seen of it.
  LoadTimes times() const {
    LoadTimes times = times_of(came);
    times.worst = std::fmax(times.worst, times_of(waited).worst);
    return times;
  }
};

/// Times of some slices of one server.
struct Collected {
  FirstTexts first, long_first;
  std::vector<double> gaps;

  void add(const LoadSlice& slice) {
    for (const LoadAnswer& answer : slice.answers) {
      FirstTexts& texts = answer.is_long ? long_first : first;
      if (!answer.pieces.empty()) texts.came.push_back(answer.pieces.front() - answer.begin);
      if (is_waiting(answer)) texts.waited.push_back(1000 * slice.seconds - answer.begin);
      if (answer.is_long) continue;
      const std::vector<double> more = gaps_of(answer);
      gaps.insert(gaps.end(), more.begin(), more.end());
    }
  }
};

double tokens_per_second(const LoadSlice& slice, const CountTokens& count) {
  long tokens = 0;
  for (const LoadAnswer& answer : slice.answers) {
    if (!answer.is_long && !answer.text.empty()) tokens += count(answer.text);
  }
  return slice.seconds > 0 ? static_cast<double>(tokens) / slice.seconds : 0;
}

void count_ends(const LoadSlice& slice, LoadResult& result) {
  for (const LoadAnswer& answer : slice.answers) {
    if (!answer.error.empty()) {
      ++result.errors;
    } else if (!answer.is_long) {
      ++(answer.is_whole ? result.answers : result.cut);
      result.waiting += is_waiting(answer) ? 1 : 0;
    }
  }
}

Json to_json(const LoadTimes& times) {
  return {{"median", rounded(times.median)},
          {"p99", rounded(times.p99)},
          {"worst", rounded(times.worst)}};
}

}  // namespace

LoadTimes times_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.99), values.back()};
}

Json slice_json(const LoadSlice& slice, const std::string& server, const CountTokens& count) {
  Collected times;
  LoadResult ends;
  count_ends(slice, ends);
  Json errors = Json::array();
  times.add(slice);
  for (const LoadAnswer& answer : slice.answers) {
    if (!answer.error.empty() && errors.size() < 3) errors.push_back(answer.error);
  }
  Json line = {{"server", server},
               {"level", name_of(slice.level)},
               {slice.level.is_open ? "rate" : "concurrency", slice.level.value},
               {"round", slice.round},
               {"seconds", rounded(slice.seconds)},
               {"tok_s", rounded(tokens_per_second(slice, count))},
               {"first_ms", to_json(times.first.times())},
               {"gap_ms", to_json(times_of(times.gaps))},
               {"answers", ends.answers},
               {"cut", ends.cut},
               {"waiting", ends.waiting},
               {"errors", ends.errors}};
  const LoadTimes long_ms = times.long_first.times();
  if (long_ms.worst > 0) line["long_first_ms"] = to_json(long_ms);
  if (!errors.empty()) line["said"] = errors;
  return line;
}

std::vector<LoadResult> summarize(std::span<const LoadSlice> slices,
                                  std::span<const std::string> servers, const CountTokens& count) {
  std::vector<LoadResult> results;
  std::vector<LoadLevel> levels;
  for (const LoadSlice& slice : slices) {
    const auto same = [&](const LoadLevel& level) {
      return name_of(level) == name_of(slice.level);
    };
    if (std::none_of(levels.begin(), levels.end(), same)) levels.push_back(slice.level);
  }
  for (const LoadLevel& level : levels) {
    std::map<int, double> first_rates;  // by round
    for (std::size_t server = 0; server < servers.size(); ++server) {
      LoadResult result{.server = servers[server], .level = level};
      Collected times;
      std::vector<double> rates, ratios;
      for (const LoadSlice& slice : slices) {
        if (slice.server != static_cast<int>(server) || name_of(slice.level) != name_of(level)) {
          continue;
        }
        rates.push_back(tokens_per_second(slice, count));
        if (server == 0) first_rates[slice.round] = rates.back();
        if (const double first = first_rates[slice.round]; first > 0) {
          ratios.push_back(rates.back() / first);
        }
        times.add(slice);
        count_ends(slice, result);
      }
      result.tok_s = spread_of(rates);
      result.times_first = spread_of(ratios);
      result.first_ms = times.first.times();
      result.gap_ms = times_of(times.gaps);
      result.long_ms = times.long_first.times();
      results.push_back(result);
    }
  }
  return results;
}

Json to_json(const LoadResult& result) {
  Json json = {{"server", result.server},
               {"level", name_of(result.level)},
               {result.level.is_open ? "rate" : "concurrency", result.level.value},
               {"tok_s", rounded(result.tok_s.median)},
               {"tok_s_least", rounded(result.tok_s.least)},
               {"tok_s_most", rounded(result.tok_s.most)},
               {"times_first", rounded(result.times_first.median)},
               {"times_first_least", rounded(result.times_first.least)},
               {"times_first_most", rounded(result.times_first.most)},
               {"first_ms", to_json(result.first_ms)},
               {"gap_ms", to_json(result.gap_ms)},
               {"answers", result.answers},
               {"cut", result.cut},
               {"waiting", result.waiting},
               {"errors", result.errors},
               {"compared", result.compared},
               {"unequal", result.unequal}};
  if (result.long_ms.worst > 0) json["long_first_ms"] = to_json(result.long_ms);
  return json;
}

Table load_table(std::span<const LoadResult> results) {
  Table table{{"server", "requests", "tok/s", "least-most", "times the first", "first text ms",
               "99 %", "worst", "gap ms", "99 %", "worst", "answers", "cut", "waiting", "errors",
               "equal"}};
  for (const LoadResult& result : results) {
    const bool is_compared = result.compared > 0;
    table.rows.push_back(
        {result.server, name_of(result.level), number(result.tok_s.median, 0),
         fmt::format("{:.0f}-{:.0f}", result.tok_s.least, result.tok_s.most),
         number(result.times_first.median, 2), number(result.first_ms.median, 0),
         number(result.first_ms.p99, 0), number(result.first_ms.worst, 0),
         number(result.gap_ms.median, 1), number(result.gap_ms.p99, 0),
         number(result.gap_ms.worst, 0), std::to_string(result.answers), std::to_string(result.cut),
         std::to_string(result.waiting), std::to_string(result.errors),
         is_compared ? fmt::format("{} of {}", result.compared - result.unequal, result.compared)
                     : "-"});
  }
  return table;
}

Report load_report(std::span<const Json> lines, const Table& table) {
  const Json& closing = lines.back();
  const Json& machine = closing.at("machine");
  return {
      .kind = ReportKind::load,
      .title = "Servers under load",
      .subtitle = fmt::format("{} on {}, commit {}", closing.at("model").get<std::string>(),
                              machine.at("processor").get<std::string>(),
                              closing.at("commit").get<std::string>()),
      .notes = {"Servers take turns at each level. Tokens are those of all text that came within "
                "a slice, counted alike for all. A gap is the time between two pieces of text of "
                "one answer; with drafts a piece often has several tokens."},
      .tables = {{"numbers", table}},
      .lines = {lines.begin(), lines.end()}};
}

}  // namespace talon
