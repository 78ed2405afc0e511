#include "bench/image/picture_sums.h"

#include <algorithm>
#include <numeric>

#include "bench/image/code_counts.h"

namespace talon {

void PictureSums::add(const ImagePlan& plan, std::span<const TokenId> answer,
                      const SequenceStatistics& s) {
  const int drawn = counts_of(plan, answer, s.accepted, -1).codes;
  ++pictures;
  codes += drawn;
  rounds += s.rounds;
  tokens += static_cast<int>(answer.size());
  accepted = std::accumulate(s.accepted.begin(), s.accepted.end(), accepted);
  relaxed += s.relaxed;
  distortion += s.distortion;
  worst_distortion = std::max(worst_distortion, s.distortion / std::max(1, drawn));
}

double PictureSums::tau() const {
  return rounds > 0 ? static_cast<double>(codes - pictures) / rounds : 1;
}

double PictureSums::steps_compression() const {
  return static_cast<double>(codes) / std::max(1, rounds + pictures);
}

PictureSums sums_of(const ImagePlan& plan, std::span<const TokenId> answer,
                    const SequenceStatistics& s) {
  PictureSums sums;
  sums.add(plan, answer, s);
  return sums;
}

Json numbers_of(const PictureSums& sums) {
  return {{"codes", sums.codes},
          {"rounds", sums.rounds},
          {"tau", sums.tau()},
          {"steps_compression", sums.steps_compression()},
          {"distortion", sums.distortion / std::max(1, sums.codes)},
          {"relaxed", sums.relaxed / std::max(1, sums.accepted)}};
}

Json summary_of(const PictureSums& sums) {
  Json json = numbers_of(sums);
  json["distortion_sum"] = sums.distortion;
  json["distortion_worst"] = sums.worst_distortion;
  return json;
}

}  // namespace talon
