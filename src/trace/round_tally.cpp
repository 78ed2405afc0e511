#include "trace/round_tally.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "trace/statistics.h"

namespace talon {
namespace {

int bucket_of(double predicted) {
  const int bucket = static_cast<int>(predicted * RoundTally::kBuckets);
  return std::clamp(bucket, 0, RoundTally::kBuckets - 1);
}

}  // namespace

double RoundTally::tau() const {
  return rounds > 0 ? 1 + static_cast<double>(accepted) / rounds : 1;
}

void RoundTally::add(const RoundReport& round) {
  const DraftTree& tree = *round.tree;
  ++rounds;
  accepted += static_cast<int>(round.emitted.size()) - 1;
  drafted += tree.draft_nodes();
  if (round.sequences == 1) {
    check_ms[tree.size()].push_back(round.check_ms);
    expert_checks += round.experts.empty() ? 0 : 1;
    experts = std::accumulate(round.experts.begin(), round.experts.end(), experts);
  }
  int last = 0;  // level that was tried
  tree.for_each_trial(round.emitted, [&](NodeId node, bool is_right) {
    if (tree[node].sources & kForcedSource) return;  // nobody guessed it
    const double predicted = tree.step_chance(node);
    Bucket& bucket = calibration[static_cast<std::size_t>(bucket_of(predicted))];
    ++bucket.trials;
    bucket.right += is_right;
    bucket.predicted += predicted;
    const auto level = static_cast<std::size_t>(tree.depth(node));
    tried.resize(std::max(tried.size(), level));
    right.resize(tried.size());
    tried[level - 1] += std::exchange(last, tree.depth(node)) != tree.depth(node);
    right[level - 1] += is_right;
  });
}

void RoundTally::add(const RoundTally& other) {
  rounds += other.rounds;
  accepted += other.accepted;
  drafted += other.drafted;
  tried.resize(std::max(tried.size(), other.tried.size()));
  right.resize(tried.size());
  for (std::size_t depth = 0; depth < other.tried.size(); ++depth) {
    tried[depth] += other.tried[depth];
    right[depth] += other.right[depth];
  }
  for (std::size_t i = 0; i < calibration.size(); ++i) {
    calibration[i].trials += other.calibration[i].trials;
    calibration[i].right += other.calibration[i].right;
    calibration[i].predicted += other.calibration[i].predicted;
  }
  expert_checks += other.expert_checks;
  experts += other.experts;
  for (const auto& [rows, ms] : other.check_ms) {
    std::vector<double>& mine = check_ms[rows];
    mine.insert(mine.end(), ms.begin(), ms.end());
  }
}

Json json_of(const RoundTally& tally) {
  Json json = {{"rounds", tally.rounds}, {"accepted", tally.accepted}, {"drafted", tally.drafted}};
  json["depth"] = Json::array();
  for (std::size_t i = 0; i < tally.tried.size(); ++i)
    json["depth"].push_back({tally.tried[i], tally.right[i]});
  json["calibration"] = Json::array();
  for (const RoundTally::Bucket& bucket : tally.calibration)
    json["calibration"].push_back({bucket.trials, bucket.right, rounded(bucket.predicted)});
  json["checks"] = Json::array();
  for (const auto& [rows, ms] : tally.check_ms)
    json["checks"].push_back({rows, ms.size(), rounded(spread_of(ms).median)});
  if (tally.expert_checks > 0) json["experts"] = {tally.expert_checks, tally.experts};
  return json;
}

RoundTally tally_from(const Json& json, const std::string& doing) {
  RoundTally tally;
  try {
    tally.rounds = json.value("rounds", 0);
    tally.accepted = json.value("accepted", 0);
    tally.drafted = json.value("drafted", 0);
    for (const Json& depth : json.value("depth", Json::array())) {
      tally.tried.push_back(depth.at(0));
      tally.right.push_back(depth.at(1));
    }
    const Json buckets = json.value("calibration", Json::array());
    for (std::size_t i = 0; i < std::min(buckets.size(), tally.calibration.size()); ++i)
      tally.calibration[i] = {buckets[i].at(0), buckets[i].at(1), buckets[i].at(2)};
    for (const Json& check : json.value("checks", Json::array())) {
      const int count = std::clamp(check.at(1).get<int>(), 0, 1 << 20);
      tally.check_ms[check.at(0)].assign(static_cast<std::size_t>(count), check.at(2));
    }
    if (const auto experts = json.find("experts"); experts != json.end()) {
      tally.expert_checks = std::max(0, experts->at(0).get<int>());
      tally.experts = experts->at(1);
    }
    if (tally.rounds < 0 || tally.accepted < 0 || tally.drafted < 0)
      fail("{}: \"rounds\", \"accepted\", \"drafted\": expected numbers that are not negative",
           doing);
  } catch (const Json::exception& error) {
    fail("{}: expected what rounds add up to, found other types ({})", doing, error.what());
  }
  return tally;
}

}  // namespace talon
