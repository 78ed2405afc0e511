#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tree/policies/policies.h"
#include "tree/policies/throughput/loss_budget.h"
#include "tree/policies/throughput/neighbour_lengths.h"
#include "tree/policies/throughput/node_worth.h"
#include "tree/policies/throughput/pass_plan.h"
#include "tree/policies/throughput/round_prices.h"
#include "tree/policies/throughput/trial.h"

namespace talon {
namespace {

constexpr double kCheapDraft = 0.005;  // of a plain step: drafts this cheap are always worth a look

struct ThroughputOptions {
  int width;
  double margin;
  bool neighbours;  // chances are also by how drafts did at neighbouring places
  int picture_row;  // as PolicyContext has it
};

/// Drafting for throughput (docs/methods.md 6.1): draft nodes are bought in order of their
/// calibrated chance to become text, up to the count where the tokens they bring, less the time
/// they take at the current tokens per millisecond, are most; and a level is drafted while the
/// tokens it is likely to bring exceed its time and its rows. A budget bounds the loss: what
/// drafting may cost beyond what it has already gained.
class ThroughputState : public PolicyState {
 public:
  ThroughputState(const ThroughputOptions& options, DrafterEstimates& drafter,
                  const MachineCosts& machine)
      : options_(options),
        drafter_(drafter),
        prices_(machine),
        worth_(drafter.calibrations),
        lengths_(options.picture_row) {
    passes_.reserve(std::max<std::size_t>(1, drafter.networks.size()));
    for (const NetworkEstimates& network : drafter.networks)
      passes_.emplace_back(drafter, network.source, prices_, budget_);
    if (passes_.empty()) passes_.emplace_back(drafter, 0U, prices_, budget_);
  }

  TreePlan plan(const PlanContext& context) override {
    prices_.set(context);
    place_ = static_cast<std::size_t>(std::max(0, context.answer_position)) + 1;
    worth_.begin_round(options_.neighbours ? lengths_.neighbourhood(place_) : 0);
    for (PassPlan& passes : passes_) passes.begin_round();
    asking_ = 0;
    if (!std::exchange(has_begun_, true)) begin(context);
    if (context.rows_available == 0 || context.levels_available == 0) return {};
    if (drafted_.value() >= kCheapDraft && drafted_.value() > budget_.tokens()) return {};
    if (!drafts_trial_.wants()) {
      for (PassPlan& passes : passes_) passes.let_pass();
      return {};
    }
    return {context.rows_available, context.levels_available,
            std::min(options_.width, context.rows_available)};
  }

  void turn_to(std::uint32_t source) override {
    const auto known =
        std::ranges::find_if(passes_, [&](const PassPlan& passes) { return passes.is_of(source); });
    if (known != passes_.end()) asking_ = static_cast<std::size_t>(known - passes_.begin());
  }

  bool start(const DraftTree& tree, int waiting) override {
    PassPlan& passes = passes_[asking_];
    return passes.start(tree, worth_.coverage(tree), waiting, passes_ms() - passes.ms());
  }

  int expand(std::span<const float> path_log_p) override {
    return passes_[asking_].expand(path_log_p, options_.margin);
  }

  void offer(const DraftTree& tree, const PlanContext& context, RowBudget& rows) override {
    prices_.set(context);
    worth_.rank(tree);
    rows.offer(worth_.chances().first(affordable_nodes()), options_.margin);
  }

  /// At prices as they were when all made their offers. Rows must promise some more than their
  /// cost, since the nodes that look best are often those that were overestimated.
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context,
              RowBudget& rows) override {
    rows.settle([&](int count) { return prices_.extra_ms(count); }, prices_.rate());
    const std::size_t most =
        std::min(static_cast<std::size_t>(context.rows_available), affordable_nodes());
    std::size_t count = 0;
    for (; count < most && rows.buy(worth_.chances()[count], options_.margin); ++count) {
      for (PassPlan& passes : passes_)
        passes.expect(worth_.proposed(), worth_.ranked(count), worth_.chances()[count]);
    }
    worth_.keep_first(count, tree);
  }

  void learn(const RoundOutcome& outcome) override {
    const int nodes_of_all = outcome.draft_rows / prices_.context().node_rows;
    const double extra_ms = prices_.extra_ms(nodes_of_all);
    const double node_ms = prices_.node_ms(nodes_of_all);
    const double draft_ms = usual_draft_ms(outcome);
    prices_.learn(outcome.batch_tokens,
                  usual_round_ms(outcome, draft_ms) + extra_ms + prices_.plain_ms());

    const double token_ms = prices_.plain_ms() / outcome.sequences;
    const double rows_ms = node_ms * outcome.tree->draft_nodes();
    const int emitted = static_cast<int>(outcome.emitted.size());
    const double gain = emitted - 1 - (rows_ms + draft_ms) / token_ms;
    double unpaid_ms = 0;
    for (const PassPlan& passes : passes_) unpaid_ms += passes.unpaid_ms();
    budget_.learn(emitted, gain - unpaid_ms / token_ms);
    if (!ran_passes() && draft_ms >= kCheapDraft * token_ms) drafts_trial_.learn(gain);
    for (PassPlan& passes : passes_) {
      if (passes.ran()) passes.learn(outcome, node_ms);
    }
    const bool proposed = worth_.proposed().draft_nodes() > 0;
    const int followed = proposed ? worth_.learn(outcome.emitted) : -1;
    for (PassPlan& passes : passes_) passes.end_round(outcome.emitted, followed);
    if (options_.neighbours) lengths_.learn(place_, outcome.emitted.size(), followed);
  }

 private:
  void begin(const PlanContext& context) {
    budget_.begin(context.levels_available, std::ranges::any_of(passes_, &PassPlan::has_paid));
    const int begun = drafter_.sequences_begun++;
    for (PassPlan& passes : passes_) passes.begin(begun);
    if (options_.neighbours)
      lengths_.reserve(place_ + static_cast<std::size_t>(context.levels_available) + 1);
  }

  bool ran_passes() const { return std::ranges::any_of(passes_, &PassPlan::ran); }
  double passes_ms() const {
    double ms = 0;
    for (const PassPlan& passes : passes_) ms += passes.ms();
    return ms;
  }

  std::size_t affordable_nodes() const {
    const double left_ms = budget_.tokens() * prices_.token_ms() - passes_ms();
    const std::size_t most = std::min(worth_.chances().size(),
                                      static_cast<std::size_t>(prices_.context().rows_available));
    std::size_t count = 0;
    while (count < most && prices_.further_ms(static_cast<int>(count) + 1) <= left_ms) ++count;
    return count;
  }

  /// This sequence's share of what such a draft takes: a round that the machine disturbed says
  /// nothing about drafting. Of what was spent for others it has none.
  double usual_draft_ms(const RoundOutcome& outcome) {
    if (ran_passes()) {
      observe_passes(outcome);
      return passes_ms();
    }
    if (outcome.sharers == 0) return 0;
    RecentMedian& kind = worth_.proposed().draft_nodes() > 0 ? drafted_ : idle_;
    kind.add(outcome.own_draft_ms / outcome.sharers / prices_.token_ms());
    return kind.value() * prices_.token_ms();
  }

  /// Of a call in which several networks ran, each took a part as large as it is believed to take.
  void observe_passes(const RoundOutcome& outcome) {
    for (PassPlan& passes : passes_) passes.shared_by(std::max(1, outcome.sharers));
    const double all_ms = passes_ms();
    for (PassPlan& passes : passes_) {
      if (!passes.ran()) continue;
      const double part = all_ms > 0 ? passes.ms() / all_ms : 1;
      passes.observe(part * outcome.own_draft_ms);
    }
  }

  /// What such drafts of all sequences take, of which this one has draft_ms.
  double usual_round_ms(const RoundOutcome& outcome, double draft_ms) {
    if (outcome.sharers > 0) return draft_ms * outcome.sharers;
    others_.add(outcome.draft_ms / prices_.plain_ms());
    return others_.value() * prices_.plain_ms();
  }

  const ThroughputOptions& options_;
  DrafterEstimates& drafter_;
  RoundPrices prices_;
  LossBudget budget_;
  NodeWorth worth_;
  NeighbourLengths lengths_;
  std::size_t place_ = 0;         // in the answer, of the token after the root
  std::vector<PassPlan> passes_;  // of each network of the drafter
  std::size_t asking_ = 0;        // of them, the one whose drafter asks
  Trial drafts_trial_;            // of drafters that cost time without asking
  RecentMedian drafted_, idle_;   // tokens' worth of time that drafting took in rounds without
                                  // passes, with and without a proposal
  RecentMedian others_;  // of a plain round: what it took in rounds in which this one had no part
  bool has_begun_ = false;
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

std::unique_ptr<TreePolicy> make_throughput(Options& options, const PolicyContext& context) {
  return std::make_unique<ThroughputPolicy>(
      ThroughputOptions{options.whole("width"), options.real("margin"),
                        options.text("neighbours") == "on", context.picture_row});
}

}  // namespace

PolicyEntry throughput_policy() {
  return {.name = "throughput",
          .summary =
              "buys draft nodes while they gain more time than they cost on this machine (default)",
          .options = {{"width", WholeNumber{1, LevelForecast::kWidth}, "10",
                       "most nodes expanded per level"},
                      {"margin", RealNumber{0.1, 10}, "1.2",
                       "gain that is asked, in multiples of the cost"},
                      {"neighbours", OneOf{{"on", "off"}}, "off",
                       "chances are also by how far drafts were followed at the left and above, of "
                       "a text at the token before"}},
          .make = make_throughput};
}

}  // namespace talon
