#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/stop.h"
#include "io/json.h"
#include "trace/statistics.h"

namespace talon {

/// What was decoded in a stretch of time.
struct DecodedSlice {
  int tokens = 0;
  double ms = 0;
  std::vector<double> step_ms;  // empty where the engine does not tell
};

/// One who decodes in the same situation as the others.
struct Rival {
  std::string name;
  bool is_fixed = false;  // one of those whose best is the measure for all
  std::function<DecodedSlice(double seconds)> decode;
};

struct RivalResult {
  std::string name;
  Spread tok_s;        // over rounds
  Spread ratio;        // of its tok/s and those of the best fixed rival, round by round
  double step_ms = 0;  // median of all its steps
  double step_p99_ms = 0;
};

struct ContentionSettings {
  int rounds = 4;
  double seconds = 2;  // of each rival in each round
  double warm_seconds = 0.25;
};

/// Lets the rivals decode in turns. Ends early, with what was measured, when `stop` is requested.
std::vector<std::vector<DecodedSlice>> race(const std::vector<Rival>& rivals,
                                            const ContentionSettings& settings,
                                            const StopFlag& stop);

/// slices: [rival][round], as many rounds for each. REQUIRES: a fixed rival, a round.
std::vector<RivalResult> compare_rivals(const std::vector<Rival>& rivals,
                                        const std::vector<std::vector<DecodedSlice>>& slices);

Json to_json(const RivalResult& result);

}  // namespace talon
