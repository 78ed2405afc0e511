#include "tree/policies/throughput/pass_plan.h"

#include <algorithm>

namespace talon {
namespace {

// Of the budget, what one round's levels may take but for the first: a few bad rounds should not
// end drafting.
constexpr double kDeeperShare = 0.5;
// Tokens that a head takes in before a draft: as far as they count, and the most after which the
// first pass still tells what the others cost.
constexpr int kMostWaiting = 128;
constexpr int kFewWaiting = 4;
// In a crowd, while passes do not pay: one in so many sequences tries at once; the others
// after so many rounds.
constexpr int kCrowdTries = 32;
constexpr int kCrowdPause = 256;

}  // namespace

PassPlan::PassPlan(DrafterEstimates& drafter, std::uint32_t source, const RoundPrices& prices,
                   const LossBudget& budget)
    : drafter_(drafter), source_(source), prices_(prices), budget_(budget) {
  for (std::size_t i = 0; i < kCoverages; ++i) trials_[i] = Trial(network().pass_gain[i]);
}

bool PassPlan::has_paid() const { return std::ranges::max(network().pass_gain) > 0; }

void PassPlan::begin(int begun) { crowd_pause_ = begun % kCrowdTries == 0 ? 0 : kCrowdPause; }

/// Alone, each sequence finds out for itself: its text may be of another kind than the last one's.
/// In a crowd a pass costs all, so while passes do not pay few sequences try for all.
bool PassPlan::leaves_it_to_others() {
  const bool is_loss = network().pass_gain[coverage_] < 0 && trials_[coverage_].value() <= 0;
  if (prices_.context().sequences == 1 || !is_loss || crowd_pause_ == 0) return false;
  --crowd_pause_;
  return true;
}

void PassPlan::begin_round() {
  pass_rows_.clear();
  network().passes.begin_round();
  sharers_ = prices_.context().sequences;
  forecast_.begin_round();
  expected_ = 0;
}

bool PassPlan::start(const DraftTree& tree, double coverage, int waiting, double others_ms) {
  others_ms_ = others_ms;
  waiting_ = std::min(waiting, kMostWaiting);
  cheap_sources_ = kForcedSource;
  for (const DraftTree::Node& node : tree.nodes) cheap_sources_ |= node.sources;
  coverage_ = std::min(static_cast<std::size_t>(coverage * static_cast<double>(kCoverages)),
                       kCoverages - 1);
  const int sequences = prices_.context().sequences;
  const double ms = catch_up_ms() + network().passes.first_pass_ms(prices_.machine()) / sequences;
  if (leaves_it_to_others() || !trials_[coverage_].wants() || !can_afford(ms, 1)) return false;
  forecast_.begin_round();  // another network's levels were not this one's
  run(first_rows(), waiting_ <= kFewWaiting);
  return true;
}

int PassPlan::expand(std::span<const float> path_log_p, double margin) {
  forecast_.see(path_log_p);
  const int most = std::min(static_cast<int>(path_log_p.size()), LevelForecast::kWidth);
  int best = 0;
  double best_gain = 0;
  for (int count = 1; count <= most; ++count) {
    const double ms = pass_ms(count);
    const double gain = forecast_.gain_of_next(count, row_price(margin)) - prices_.rate() * ms;
    if (gain <= best_gain || !can_afford(ms, kDeeperShare)) continue;
    best_gain = gain;
    best = count;
  }
  forecast_.expand(best);
  if (best > 0) run(best);
  return best;
}

void PassPlan::run(int rows, bool tells) {
  network().passes.run(pass_rows_.size(), rows, tells);
  pass_rows_.push_back(rows);
}

/// This sequence's share of a pass in which each sequence has `rows`.
double PassPlan::pass_ms(int rows) const {
  const int sequences = prices_.context().sequences;
  return network().passes.pass_ms(rows * sequences, prices_.machine()) / sequences;
}

/// This sequence's share of a first pass, which runs the tokens that the head has not seen.
double PassPlan::catch_up_ms() const {
  return pass_ms(1) + network().passes.waiting_row_ms(prices_.machine()) * waiting_;
}

/// Rows of the first pass, as far as they are counted in what passes cost.
int PassPlan::first_rows() const { return 1 + std::min(waiting_, kFewWaiting); }

double PassPlan::ms() const {
  return network().passes.draft_ms(pass_rows_, sharers_, prices_.machine()) / sharers_;
}

double PassPlan::unpaid_ms() const {
  if (!ran() || trials_[coverage_].value() > 0) return 0;
  const int rows = 1 + waiting_ - first_rows();
  return network().passes.waiting_row_ms(prices_.machine()) * rows;
}

/// Whether `share` of the budget pays for one more pass and the rows that make it of use: one for
/// each level, or more where trees have been larger lately.
bool PassPlan::can_afford(double pass_ms, double share) const {
  const int levels = static_cast<int>(pass_rows_.size()) + 1;
  return others_ms_ + ms() + pass_ms + prices_.extra_ms(levels) <=
         share * budget_.tokens() * prices_.token_ms();
}

/// Tokens that one more node must bring, at the size that trees have lately.
double PassPlan::row_price(double margin) const {
  const int nodes = std::max(1, static_cast<int>(usual_nodes_ * prices_.context().sequences));
  const double ms = prices_.extra_ms(2 * nodes) - prices_.extra_ms(nodes);
  return margin * prices_.rate() * ms / nodes;
}

/// Whether a drafter proposed the node that had finished when the passes began; or one of further
/// passes, of another network.
bool PassPlan::by_cheaper(const DraftTree& tree, NodeId node) const {
  const std::uint32_t sources = tree[node].sources;
  return (sources & cheap_sources_) != 0 || (source_ != 0 && (sources & source_) == 0);
}

void PassPlan::expect(const DraftTree& tree, NodeId node, double chance) {
  if (!by_cheaper(tree, node)) expected_ += chance;
}

void PassPlan::observe(double draft_ms) {
  network().passes.observe_call(sharers_, draft_ms, prices_.machine());
}

/// What the passes brought beyond the nodes that cheaper drafters proposed. They count as if all
/// shared them, as they do once passes pay: one that tries for all bears more, from its budget.
void PassPlan::learn(const RoundOutcome& outcome, double node_ms) {
  const DraftTree& tree = *outcome.tree;
  const auto is_cheap = [&](NodeId node) { return by_cheaper(tree, node); };
  std::size_t without = 1;
  while (without < outcome.accepted.size() && is_cheap(outcome.accepted[without])) ++without;
  int nodes = 0;
  for (NodeId node = 1; node < tree.size(); ++node) nodes += is_cheap(node) ? 0 : 1;
  // The mean of what came true and what was to be expected, which varies less.
  const double tokens = (static_cast<double>(outcome.accepted.size() - without) + expected_) / 2;
  const int all = prices_.context().sequences;
  const double draft_ms = network().passes.draft_ms(pass_rows_, all, prices_.machine()) / all;
  const double usual_ms = draft_ms - (pass_ms(first_rows()) - pass_ms(1));
  const double gain = tokens - prices_.rate() * (usual_ms + node_ms * nodes);
  trials_[coverage_].learn(gain);
  network().pass_gain[coverage_] += 0.02 * (gain - network().pass_gain[coverage_]);
  usual_nodes_ += 0.1 * (tree.draft_nodes() - usual_nodes_);
}

void PassPlan::end_round(std::span<const TokenId> emitted, int matched) {
  const int count = static_cast<int>(emitted.size());
  if (matched >= 0) forecast_.learn(matched, matched < count);
}

}  // namespace talon
