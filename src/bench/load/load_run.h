#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/load/load_server.h"
#include "core/stop.h"

namespace talon {

/// How requests come. Closed: so many clients, each with its next question as soon as it has an
/// answer. Open: whoever else is served, on average so many a second, at times that depend on the
/// seed alone (Poisson).
struct LoadLevel {
  bool is_open = false;
  double value = 1;  // clients, or requests a second
};
/// "4 at once", "0.5/s"
std::string name_of(const LoadLevel& level);

/// One request and what came of it. Times in milliseconds since the slice began.
struct LoadAnswer {
  int prompt = 0;  // its number
  bool is_long = false;
  double begin = 0;                 // open: when it was to be sent
  std::vector<double> pieces = {};  // when text came
  std::string text = {};
  bool is_whole = false;  // else the slice ended first, or `error` says what went wrong
  std::string error = {};
};

struct LoadSettings {
  SamplerOptions sampler;
  double seconds = 8;   // of a slice
  int long_tokens = 0;  // prompts of so many tokens come in beside the others, one at a time
  std::uint64_t seed = 1;
};

/// What one server made of one level for a while.
struct LoadSlice {
  int server = 0;
  LoadLevel level;
  int round = 0;
  double seconds = 0;
  std::vector<LoadAnswer> answers = {};
};

/// When requests of an open level come, in seconds, as far as `seconds`.
std::vector<double> arrivals(double per_second, double seconds, std::uint64_t seed);

/// Asks `server` for settings.seconds, with the prompts from number `first` on, and leaves the
/// answers that are not whole then; earlier when `stop` is requested.
std::vector<LoadAnswer> run_slice(LoadServer& server, const LoadPrompts& prompts, int first,
                                  const LoadLevel& level, const LoadSettings& settings,
                                  const StopFlag& stop);

}  // namespace talon
