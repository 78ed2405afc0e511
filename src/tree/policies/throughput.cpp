#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "tree/policies/level_forecast.h"
#include "tree/policies/policies.h"
#include "tree/policies/trial.h"

namespace talon {
namespace {

// A sequence may lose this much before it has won anything, so that the worst case is a known
// fraction of plain decoding. In tokens' worth of time.
constexpr double kStartStake = 1;
constexpr double kStakePerToken = 0.006;  // that each token adds
constexpr double kStakeShare = 0.014;     // of the answer at most, where drafts paid before
constexpr double kMostStartStake = 2.5;
// Of the stake, what one round's levels may take but for the first: a few bad rounds should not
// end drafting.
constexpr double kDeeperShare = 0.5;

constexpr double kMargin = 1.2;        // gain that is asked, in multiples of the cost
constexpr double kRateMemory = 0.95;   // weight of the past in the running tokens per millisecond
constexpr double kCheapDraft = 0.005;  // of a plain step: drafts this cheap are always worth a look
// Tokens that a head takes in before a draft: as far as they count, and the most after which the
// first pass still tells what the others cost.
constexpr int kMostWaiting = 128;
constexpr int kFewWaiting = 4;
constexpr int kTreeWidth = 10;
constexpr std::size_t kMostIndices = 256;  // nodes of a drawn tree whose record is kept

struct ThroughputOptions {
  int width;
  double margin;
};

/// Drafting for throughput (docs/methods.md 6.1): draft nodes are bought in order of their
/// calibrated chance to become text, up to the count where the tokens they bring, less the time
/// they take at the current tokens per millisecond, are most; and a level is drafted while the
/// tokens it is likely to bring exceed its time and its rows. The costs come from MachineCosts and
/// PassCosts, the chances from Calibration, which also learns from nodes that were proposed but not
/// bought. A stake bounds the loss: what drafting may cost beyond what it has already gained.
class ThroughputState : public PolicyState {
 public:
  ThroughputState(const ThroughputOptions& options, DrafterEstimates& drafter,
                  const MachineCosts& machine)
      : options_(options),
        drafter_(drafter),
        machine_(machine),
        calibration_(&drafter.calibration),
        proposed_(0) {
    for (std::size_t i = 0; i < passes_trial_.size(); ++i) {
      passes_trial_[i] = Trial(drafter.pass_gain[i]);
    }
  }

  TreePlan plan(const PlanContext& context) override {
    proposed_.reset(0);
    pass_rows_.clear();
    context_ = context;
    forecast_.begin_round();
    if (!has_begun_) {
      stake_ = start_stake(context.levels_available);
      waiting_ = std::clamp(context.position, 1, kMostWaiting);
    }
    has_begun_ = true;
    if (context.rows_available == 0 || context.levels_available == 0) return {};
    if (drafted_.value() >= kCheapDraft && drafted_.value() > stake_) return {};
    if (!drafts_trial_.wants()) return {};
    return {context.rows_available, context.levels_available,
            std::min(options_.width, context.rows_available)};
  }

  bool start(const DraftTree& tree) override {
    cheap_sources_ = 0;
    for (const DraftTree::Node& node : tree.nodes) cheap_sources_ |= node.sources;
    double covered = 0;
    for (const NodeId node : tree.children(0)) {
      if (tree[node].kind == NodeKind::probe) continue;
      covered += calibration_.probability(1, tree.step_chance(node));
    }
    coverage_ = std::min(static_cast<std::size_t>(covered * static_cast<double>(kCoverages)),
                         kCoverages - 1);
    const double ms =
        pass_ms(waiting_) + drafter_.passes.first_pass_ms(machine_) / context_.sequences;
    if (!passes_trial_[coverage_].wants() || !can_afford(ms, 1)) return false;
    pass_rows_.push_back(waiting_ * context_.sequences);
    return true;
  }

  int expand(std::span<const float> path_log_p) override {
    forecast_.see(path_log_p);
    const int most = std::min(static_cast<int>(path_log_p.size()), LevelForecast::kWidth);
    int best = 0;
    double best_gain = 0;
    for (int count = 1; count <= most; ++count) {
      const double ms = pass_ms(count);
      const double gain = forecast_.gain_of_next(count, row_price()) - rate() * ms;
      if (gain <= best_gain || !can_afford(ms, kDeeperShare)) continue;
      best_gain = gain;
      best = count;
    }
    forecast_.expand(best);
    if (best > 0) pass_rows_.push_back(best * context_.sequences);
    return best;
  }

  void offer(const DraftTree& tree, const PlanContext& context, RowBudget& rows) override {
    proposed_ = tree;
    context_ = context;
    score();
    rows.offer(std::span(offered_).first(affordable_nodes()));
  }

  void select(DraftTree& tree, const TreePlan&, const PlanContext& context,
              RowBudget& rows) override {
    const int base_rows = context_.other_rows + 1;  // as it was when all made their offers
    rows.settle([&](int count) { return extra_ms(base_rows, count); }, price());
    const std::size_t most =
        std::min(static_cast<std::size_t>(context.rows_available), affordable_nodes());
    std::size_t count = 0;
    expected_by_passes_ = 0;
    for (; count < most && rows.buy(offered_[count]); ++count) {
      if (!by_cheaper(proposed_, ranked_[count])) expected_by_passes_ += offered_[count];
    }
    if (!tree.drawn.empty()) return tree.truncate(static_cast<int>(count));
    std::sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(count));
    tree.keep(std::span(ranked_).first(count));
  }

  void learn(const RoundOutcome& outcome) override {
    const int base_rows = context_.other_rows + 1;
    const double extra = extra_ms(base_rows, std::max(0, outcome.batch_rows - base_rows));
    const double node_ms = extra / std::max(1, outcome.batch_rows - base_rows);
    const double draft_ms = usual_draft_ms(outcome);
    rate_tokens_ = kRateMemory * rate_tokens_ + outcome.batch_tokens;
    rate_ms_ = kRateMemory * rate_ms_ + draft_ms * outcome.sequences + extra + plain_ms(base_rows);

    const double token_ms = plain_ms(base_rows) / outcome.sequences;
    const double rows_ms = node_ms * outcome.tree->draft_nodes();
    const double extra_tokens = static_cast<double>(outcome.emitted.size()) - 1;
    const double gain = extra_tokens - (rows_ms + draft_ms) / token_ms;
    stake_ += kStakePerToken * static_cast<double>(outcome.emitted.size()) + gain;
    if (pass_rows_.empty() && draft_ms >= kCheapDraft * token_ms) drafts_trial_.learn(gain);
    if (!pass_rows_.empty()) {
      learn_passes(outcome, draft_ms - (pass_ms(waiting_) - pass_ms(1)), node_ms);
      waiting_ = 0;
    }
    waiting_ = std::min(waiting_ + static_cast<int>(outcome.emitted.size()), kMostWaiting);
    if (proposed_.draft_nodes() > 0) learn_chances(outcome.emitted);
  }

 private:
  static constexpr std::size_t kCoverages = DrafterEstimates::kCoverages;

  double plain_ms(int base_rows) const {
    return machine_.check_ms(base_rows, context_.position) + machine_.rest_ms();
  }
  double extra_ms(int base_rows, int nodes) const {
    if (nodes == 0) return 0;
    return machine_.check_ms(base_rows + nodes, context_.position) -
           machine_.check_ms(base_rows, context_.position);
  }
  /// More than the usual stake for a long answer, if drafts paid in others: a bad start should not
  /// end what is good on the whole.
  double start_stake(int most_tokens) const {
    const auto& gains = drafter_.pass_gain;
    if (*std::max_element(gains.begin(), gains.end()) <= 0) return kStartStake;
    return std::clamp(kStakeShare * most_tokens, kStartStake, kMostStartStake);
  }
  /// This sequence's share of a pass in which each sequence has `rows`.
  double pass_ms(int rows) const {
    return drafter_.passes.pass_ms(rows * context_.sequences, machine_) / context_.sequences;
  }
  double passes_ms() const {
    return drafter_.passes.draft_ms(pass_rows_, machine_) / context_.sequences;
  }
  double token_ms() const { return plain_ms(context_.other_rows + 1) / context_.sequences; }
  /// Tokens per millisecond: what a millisecond spent on drafting must bring. At least those of
  /// plain decoding.
  double rate() const {
    const double plain = context_.sequences / plain_ms(context_.other_rows + 1);
    return rate_ms_ > 0 ? std::max(plain, rate_tokens_ / rate_ms_) : plain;
  }
  /// What a millisecond of rows must promise: some more, since the nodes that look best are often
  /// those that were overestimated.
  double price() const { return options_.margin * rate(); }
  /// Whether `share` of the stake pays for one more pass and the rows that make it of use: one for
  /// each level, or more where trees have been larger lately.
  bool can_afford(double pass_ms, double share) const {
    const int levels = static_cast<int>(pass_rows_.size()) + 1;
    const double rows_ms = extra_ms(context_.other_rows + 1, levels);
    return passes_ms() + pass_ms + rows_ms <= share * stake_ * token_ms();
  }
  /// Tokens that one more node must bring, at the size that trees have lately.
  double row_price() const {
    const int base_rows = context_.other_rows + 1;
    const int nodes = std::max(1, static_cast<int>(usual_nodes_ * context_.sequences));
    const double ms = extra_ms(base_rows, 2 * nodes) - extra_ms(base_rows, nodes);
    return price() * ms / nodes;
  }

  std::size_t affordable_nodes() const {
    const int base_rows = context_.other_rows + 1;
    const double left_ms = stake_ * token_ms() - passes_ms();
    std::size_t count = 0;
    while (count < offered_.size() && static_cast<int>(count) < context_.rows_available &&
           extra_ms(base_rows, static_cast<int>(count) + 1) <= left_ms) {
      ++count;
    }
    return count;
  }

  /// Fills chance_ with the calibrated path probability of each node of proposed_, and ranked_ and
  /// offered_ with the draft nodes by it. Nodes that were drawn keep their order, and their chance
  /// is that of others in their place before: it may not depend on their tokens.
  void score() {
    const auto chance = [&](NodeId node) -> double& {
      return chance_[static_cast<std::size_t>(node)];
    };
    chance_.assign(proposed_.nodes.size(), 1.0);
    for (NodeId node = 1; node < proposed_.size(); ++node) {
      chance(node) = chance(proposed_[node].parent) * calibrated(node);
    }
    const bool is_drawn = !proposed_.drawn.empty();
    ranked_.resize(chance_.size() - 1);
    offered_.resize(ranked_.size());
    std::iota(ranked_.begin(), ranked_.end(), 1);
    if (!is_drawn) proposed_.rank(ranked_, chance);
    double least = 1;
    for (std::size_t i = 0; i < ranked_.size(); ++i) {
      least = std::min(least, is_drawn ? place_chance(ranked_[i]) : chance(ranked_[i]));
      offered_[i] = least;
    }
  }

  /// The chance that a node follows its parent; a probe's worth is what its drafter says.
  double calibrated(NodeId node) const {
    const double claimed = proposed_.step_chance(node);
    if (proposed_[node].kind == NodeKind::probe) return claimed;
    return calibration_.probability(proposed_.depth(node), claimed);
  }

  /// Whether a drafter proposed the node that had finished when the passes began.
  bool by_cheaper(const DraftTree& tree, NodeId node) const {
    return (tree[node].sources & cheap_sources_) != 0;
  }

  /// This sequence's share of what such a draft takes: a round that the machine disturbed says
  /// nothing about drafting.
  double usual_draft_ms(const RoundOutcome& outcome) {
    if (!pass_rows_.empty()) {
      if (waiting_ <= kFewWaiting) drafter_.passes.observe(pass_rows_, outcome.draft_ms, machine_);
      return passes_ms();
    }
    RecentMedian& kind = proposed_.draft_nodes() > 0 ? drafted_ : idle_;
    kind.add(outcome.draft_ms / outcome.sequences / token_ms());
    return kind.value() * token_ms();
  }

  double place_chance(NodeId node) const {
    constexpr double kPriorTrials = 4;
    const Place& place = places_[place_of(node)];
    return (kPriorTrials * std::pow(0.6, proposed_.depth(node)) + place.right) /
           (kPriorTrials + place.trials);
  }
  static std::size_t place_of(NodeId node) {
    return std::min(static_cast<std::size_t>(node), kMostIndices - 1);
  }

  /// What the passes brought beyond the nodes that cheaper drafters proposed.
  void learn_passes(const RoundOutcome& outcome, double draft_ms, double node_ms) {
    const DraftTree& tree = *outcome.tree;
    const auto is_cheap = [&](NodeId node) { return by_cheaper(tree, node); };
    std::size_t without = 1;
    while (without < outcome.accepted.size() && is_cheap(outcome.accepted[without])) ++without;
    int nodes = 0;
    for (NodeId node = 1; node < tree.size(); ++node) nodes += is_cheap(node) ? 0 : 1;
    // The mean of what came true and what was to be expected, which varies less.
    const double tokens =
        (static_cast<double>(outcome.accepted.size() - without) + expected_by_passes_) / 2;
    const double gain = tokens - rate() * (draft_ms + node_ms * nodes);
    passes_trial_[coverage_].learn(gain);
    drafter_.pass_gain[coverage_] += 0.02 * (gain - drafter_.pass_gain[coverage_]);
    usual_nodes_ += 0.1 * (tree.draft_nodes() - usual_nodes_);
  }

  /// From all that was proposed, bought or not.
  void learn_chances(std::span<const TokenId> emitted) {
    const int matched = proposed_.for_each_trial(emitted, [&](NodeId node, bool right) {
      const double claimed = proposed_.step_chance(node);
      calibration_.observe(proposed_.depth(node), claimed, right);
      drafter_.calibration.observe(proposed_.depth(node), claimed, right);
    });
    forecast_.learn(matched, matched < static_cast<int>(emitted.size()));
    if (!proposed_.drawn.empty()) learn_places(emitted);
  }

  /// Which nodes of a drawn tree the text went through.
  void learn_places(std::span<const TokenId> emitted) {
    on_text_.assign(proposed_.nodes.size(), false);
    on_text_[0] = true;
    for (NodeId id = 1; id < proposed_.size(); ++id) {
      const DraftTree::Node& node = proposed_[id];
      const auto level = static_cast<std::size_t>(node.depth) - 1;
      if (level >= emitted.size()) continue;  // not known
      const bool is_on_text =
          on_text_[static_cast<std::size_t>(node.parent)] && node.token == emitted[level];
      on_text_[static_cast<std::size_t>(id)] = is_on_text;
      Place& place = places_[place_of(id)];
      place.right = 0.98 * place.right + (is_on_text ? 1 : 0);
      place.trials = 0.98 * place.trials + 1;
    }
  }

  struct Place {
    double right = 0;
    double trials = 0;
  };

  const ThroughputOptions& options_;
  DrafterEstimates& drafter_;
  const MachineCosts& machine_;
  Calibration calibration_;
  LevelForecast forecast_;
  Trial drafts_trial_;                          // of drafters that cost time without asking
  std::array<Trial, kCoverages> passes_trial_;  // by how much cheaper drafters cover already
  std::array<Place, kMostIndices> places_{};    // of drawn trees, by node id
  bool has_begun_ = false;
  double stake_ = kStartStake;  // tokens' worth of time that drafting may still lose
  double rate_tokens_ = 0, rate_ms_ = 0;
  double usual_nodes_ = 8;
  int waiting_ = 1;              // tokens that the head has not seen: rows of its next first pass
  RecentMedian drafted_, idle_;  // tokens' worth of time that drafting took in rounds without
                                 // passes, with and without a proposal

  // Of the current round:
  PlanContext context_;
  DraftTree proposed_;  // as the drafter made it
  std::uint32_t cheap_sources_ = 0;
  std::size_t coverage_ = 0;
  double expected_by_passes_ = 0;  // tokens, of bought nodes that no cheaper drafter proposed
  std::vector<int> pass_rows_;     // of the whole batch, per pass
  std::vector<double> chance_;     // per node of proposed_
  std::vector<NodeId> ranked_;     // draft nodes, likeliest first
  std::vector<double> offered_;    // their chances, descending
  std::vector<bool> on_text_;
};

class ThroughputPolicy : public TreePolicy {
 public:
  explicit ThroughputPolicy(const ThroughputOptions& options) : options_(options) {}
  Traits traits() const override { return {.uses_costs = true}; }
  std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                     const MachineCosts& machine) const override {
    return std::make_unique<ThroughputState>(options_, drafter, machine);
  }

 private:
  ThroughputOptions options_;
};

}  // namespace

std::unique_ptr<TreePolicy> make_throughput_policy(OptionText& options, const PolicyContext&) {
  ThroughputOptions parsed{};
  parsed.width = options.take_int("width", kTreeWidth, 1, LevelForecast::kWidth);
  parsed.margin = options.take_double("margin", kMargin, 0.1, 10);
  return std::make_unique<ThroughputPolicy>(parsed);
}

}  // namespace talon
