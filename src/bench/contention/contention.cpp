#include "bench/contention/contention.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

double rate_of(const DecodedSlice& slice) {
  return slice.ms > 0 ? 1000 * slice.tokens / slice.ms : 0;
}

std::vector<double> rates_of(const std::vector<DecodedSlice>& slices) {
  std::vector<double> rates;
  for (const DecodedSlice& slice : slices) rates.push_back(rate_of(slice));
  return rates;
}

/// The value that a share of all, which get sorted, does not exceed; 0 of none.
double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(share * last + 0.5)];
}

}  // namespace

std::vector<std::vector<DecodedSlice>> race(const std::vector<Rival>& rivals,
                                            const ContentionSettings& settings,
                                            const StopFlag& stop) {
  std::vector<std::vector<DecodedSlice>> slices(rivals.size());
  for (const Rival& rival : rivals) {
    if (!stop.requested()) rival.decode(settings.warm_seconds);
  }
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<DecodedSlice> of_round(rivals.size());
    for (std::size_t turn = 0; turn < rivals.size() && !stop.requested(); ++turn) {
      const std::size_t rival = (static_cast<std::size_t>(round) + turn) % rivals.size();
      of_round[rival] = rivals[rival].decode(settings.seconds);
    }
    if (stop.requested()) break;
    for (std::size_t i = 0; i < rivals.size(); ++i) slices[i].push_back(std::move(of_round[i]));
  }
  return slices;
}

std::vector<RivalResult> compare_rivals(const std::vector<Rival>& rivals,
                                        const std::vector<std::vector<DecodedSlice>>& slices) {
  expects(slices.size() == rivals.size(), "slices of every rival");
  std::vector<double> best;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    const std::vector<double> rates = rates_of(slices[i]);
    const bool is_better = best.empty() || spread_of(rates).median > spread_of(best).median;
    if (rivals[i].is_fixed && is_better) best = rates;
  }
  expects(!best.empty(), "a fixed rival and a round");
  std::vector<RivalResult> results;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    const std::vector<double> rates = rates_of(slices[i]);
    std::vector<double> ratios, steps;
    for (std::size_t round = 0; round < rates.size(); ++round) {
      ratios.push_back(rates[round] / std::max(best[round], 1e-9));
      const std::vector<double>& step_ms = slices[i][round].step_ms;
      steps.insert(steps.end(), step_ms.begin(), step_ms.end());
    }
    results.push_back({rivals[i].name, spread_of(rates), spread_of(ratios), quantile(steps, 0.5),
                       quantile(steps, 0.99)});
  }
  return results;
}

Json to_json(const RivalResult& result) {
  return {{"rival", result.name},
          {"tok_s", rounded(result.tok_s.median)},
          {"tok_s_least", rounded(result.tok_s.least)},
          {"tok_s_most", rounded(result.tok_s.most)},
          {"ratio", rounded(result.ratio.median)},
          {"ratio_least", rounded(result.ratio.least)},
          {"ratio_most", rounded(result.ratio.most)},
          {"step_ms", rounded(result.step_ms)},
          {"step_p99_ms", rounded(result.step_p99_ms)}};
}

}  // namespace talon
