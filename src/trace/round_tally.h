#pragma once

#include <array>
#include <map>
#include <vector>

#include "engine/round/round_report.h"
#include "io/json.h"

namespace talon {

/// What the rounds of some answers add up to.
struct RoundTally {
  static constexpr int kBuckets = 10;  // equal parts of [0, 1]

  int rounds = 0;
  int accepted = 0;  // draft nodes that became text
  int drafted = 0;   // draft nodes checked
  /// By depth, from 1 on: rounds whose text followed the tree to the depth before and found a node
  /// of a drafter there, and those of them in which one was followed too.
  std::vector<int> tried, right;
  /// Nodes of drafters whose parent was right, by the drafter's chance that they follow it: how
  /// many, how many were right, and the sum of the chances.
  struct Bucket {
    int trials = 0;
    int right = 0;
    double predicted = 0;
  };
  std::array<Bucket, kBuckets> calibration{};
  /// Milliseconds of single-sequence checks by their rows.
  std::map<int, std::vector<double>> check_ms;
  /// Of single-sequence checks of a mixture: how many, and what experts they read.
  int expert_checks = 0;
  double experts = 0;

  /// Tokens emitted per check; 1 when nothing was checked.
  double tau() const;
  /// Mean of a check; 0 without experts.
  double experts_per_check() const { return expert_checks > 0 ? experts / expert_checks : 0; }
  void add(const RoundReport& round);
  void add(const RoundTally& other);
};

/// {"rounds", "accepted", "drafted", "depth": [[tried, right] by depth], "calibration": [[trials,
/// right, predicted] by bucket], "checks": [[rows, count, median ms] ...], "experts": [checks,
/// sum], absent without experts}
Json json_of(const RoundTally& tally);
/// Checks come back as `count` times their median. Throws Error beginning with `doing` unless it
/// has this form; what is absent is empty.
RoundTally tally_from(const Json& json, const std::string& doing);

}  // namespace talon
