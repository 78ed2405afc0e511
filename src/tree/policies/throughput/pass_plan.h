#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/drafter_estimates.h"
#include "tree/policies/throughput/level_forecast.h"
#include "tree/policies/throughput/loss_budget.h"
#include "tree/policies/throughput/round_prices.h"
#include "tree/policies/throughput/trial.h"

namespace talon {

/// The passes of one network in one sequence: whether to run them beside what cheaper drafters
/// cover already, how many nodes each expands, and what they cost and brought.
class PassPlan {
 public:
  /// source: of the network, if the drafter joins several (DrafterEstimates::of); else 0.
  PassPlan(DrafterEstimates& drafter, std::uint32_t source, const RoundPrices& prices,
           const LossBudget& budget);

  bool is_of(std::uint32_t source) const { return source_ == source; }
  /// Whether they brought other sequences something.
  bool has_paid() const;
  /// Before the first round. begun: sequences before this one.
  void begin(int begun);
  void begin_round();
  /// A round in which nothing is drafted: a pause of the passes goes on.
  void let_pass() { trials_[coverage_].wants(); }
  /// Whether the first pass is worth it. tree: what cheaper drafters proposed, `coverage` their
  /// chances at the root. waiting: tokens that the head has not seen, beside the root. others_ms:
  /// what passes of other networks take in the round.
  bool start(const DraftTree& tree, double coverage, int waiting, double others_ms);
  /// How many of the newest level's nodes to expand. margin: gain that rows must bring, in
  /// multiples of their cost.
  int expand(std::span<const float> path_log_p, double margin);

  bool ran() const { return !pass_rows_.empty(); }
  /// This sequence's share of what the round's passes take. While they run: if all share them.
  double ms() const;
  /// So many sequences had passes in the round.
  void shared_by(int sequences) { sharers_ = sequences; }
  /// Of what a head took in beside what ms() counts, all while passes do not pay.
  double unpaid_ms() const;
  /// Tokens to be expected of a node that is bought.
  void expect(const DraftTree& tree, NodeId node, double chance);
  /// What the call took in a round with passes: corrects what they are believed to.
  void observe(double draft_ms);
  /// After a round with passes, each node of whose check took node_ms.
  void learn(const RoundOutcome& outcome, double node_ms);
  /// After every round. matched: levels of the proposed tree that the text followed, or < 0 if
  /// nothing was proposed.
  void end_round(std::span<const TokenId> emitted, int matched);

 private:
  static constexpr std::size_t kCoverages = DrafterEstimates::kCoverages;

  NetworkEstimates& network() const { return drafter_.of(source_); }
  bool leaves_it_to_others();
  void run(int rows, bool tells = true);
  double pass_ms(int rows) const;
  int first_rows() const;
  double catch_up_ms() const;
  bool can_afford(double pass_ms, double share) const;
  double row_price(double margin) const;
  bool by_cheaper(const DraftTree& tree, NodeId node) const;

  DrafterEstimates& drafter_;
  std::uint32_t source_;
  const RoundPrices& prices_;
  const LossBudget& budget_;
  LevelForecast forecast_;
  std::array<Trial, kCoverages> trials_;  // by how much cheaper drafters cover already
  double usual_nodes_ = 8;
  int sharers_ = 1;      // sequences that share the round's passes
  int crowd_pause_ = 0;  // rounds in a crowd in which others try

  // Of the current round:
  double others_ms_ = 0;        // that passes of other networks take
  int waiting_ = 0;             // tokens that the first pass takes in beside the root
  std::vector<int> pass_rows_;  // of each pass
  std::uint32_t cheap_sources_ = 0;
  std::size_t coverage_ = 0;
  double expected_ = 0;  // tokens, of bought nodes that no cheaper drafter proposed
};

}  // namespace talon
