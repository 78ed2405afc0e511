#include "trace/reliability.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

Json json_of(const Reliability::Diagram& diagram) {
  return {{"trials", diagram.trials()},
          {"calibration_error", diagram.calibration_error()},
          {"brier", diagram.brier()}};
}

}  // namespace

void Reliability::Diagram::add(double predicted, bool right) {
  const int place = std::clamp(static_cast<int>(predicted * kBuckets), 0, kBuckets - 1);
  Bucket& bucket = buckets[static_cast<std::size_t>(place)];
  ++bucket.trials;
  bucket.right += right ? 1 : 0;
  bucket.predicted += predicted;
  squared_error += (predicted - (right ? 1 : 0)) * (predicted - (right ? 1 : 0));
}

int Reliability::Diagram::trials() const {
  int sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.trials;
  return sum;
}

double Reliability::Diagram::calibration_error() const {
  double sum = 0;
  for (const Bucket& bucket : buckets) sum += std::abs(bucket.right - bucket.predicted);
  return trials() > 0 ? sum / trials() : 0;
}

double Reliability::Diagram::brier() const { return trials() > 0 ? squared_error / trials() : 0; }

std::size_t Reliability::index(int depth) {
  return static_cast<std::size_t>(std::min(depth, kDepths));
}

/// The whole round is predicted before any of it is learned.
void Reliability::add(const RoundReport& round) {
  struct Trial {
    int depth;
    double predicted;
    bool right;
  };
  std::vector<Trial> trials;
  const DraftTree& tree = *round.tree;
  tree.for_each_trial(round.emitted, [&](NodeId node, bool right) {
    if (tree[node].sources & kForcedSource) return;  // nobody guessed it
    trials.push_back({tree.depth(node), tree.step_chance(node), right});
  });
  for (const auto& [depth, predicted, right] : trials) {
    const double corrected = calibration_.probability(depth, predicted);
    for (const int place : {0, depth}) {
      before_[index(place)].add(predicted, right);
      after_[index(place)].add(corrected, right);
    }
  }
  for (const auto& [depth, predicted, right] : trials)
    calibration_.observe(depth, predicted, right);
}

std::vector<Json> Reliability::lines() const {
  std::vector<Json> lines;
  for (const auto& [stage, diagrams] :
       {std::pair{"before", &before_}, std::pair{"after", &after_}}) {
    for (std::size_t depth = 0; depth < diagrams->size(); ++depth) {
      const auto& buckets = (*diagrams)[depth].buckets;
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        if (buckets[i].trials == 0) continue;
        lines.push_back({{"stage", stage},
                         {"depth", depth},
                         {"bucket", i},
                         {"trials", buckets[i].trials},
                         {"right", buckets[i].right},
                         {"predicted", buckets[i].predicted}});
      }
    }
  }
  return lines;
}

Json Reliability::summary() const {
  return {{"before", json_of(before(0))}, {"after", json_of(after(0))}};
}

}  // namespace talon
