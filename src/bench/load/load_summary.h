#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/load/load_run.h"
#include "io/json.h"
#include "report/report.h"
#include "report/table.h"
#include "trace/statistics.h"

namespace talon {

/// Tokens of a text, counted alike for all servers.
using CountTokens = std::function<int(const std::string&)>;

/// Of times in milliseconds; NaN where there are none.
struct LoadTimes {
  double median = NAN, p99 = NAN, worst = NAN;
};
LoadTimes times_of(std::vector<double> values);

/// What one server made of one level, over its slices.
struct LoadResult {
  std::string server;
  LoadLevel level;
  Spread tok_s = {};        // over slices; of all text that came within them
  Spread times_first = {};  // tok/s over those of the first server, slice by slice
  LoadTimes first_ms = {};  // from the question to the first text; the worst: or to the slice's end
  LoadTimes gap_ms = {};   // between texts of a running answer; drafts bring several tokens at once
  LoadTimes long_ms = {};  // from a long prompt to the first text; the worst: or to the slice's end
  int answers = 0;         // that came whole
  int cut = 0;             // that the end of a slice cut off
  int waiting = 0;         // of these, without any text yet
  int errors = 0;
  int unequal = 0;  // that are not what plain decoding gives
  int compared = 0;
};

/// A line of JSON for one slice.
Json slice_json(const LoadSlice& slice, const std::string& server, const CountTokens& count);

/// In the order of levels, then servers. Every server has as many slices of a level.
std::vector<LoadResult> summarize(std::span<const LoadSlice> slices,
                                  std::span<const std::string> servers, const CountTokens& count);
Json to_json(const LoadResult& result);

Table load_table(std::span<const LoadResult> results);
/// Lines as `talon bench load` prints them, the closing one last.
Report load_report(std::span<const Json> lines, const Table& table);

}  // namespace talon
