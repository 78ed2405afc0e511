#pragma once

#include <algorithm>

#include "tree/machine_costs.h"
#include "tree/tree_policy.h"

namespace talon {

/// What time costs one sequence in the current round, and what a millisecond brings.
class RoundPrices {
 public:
  explicit RoundPrices(const MachineCosts& machine) : machine_(machine) {}

  void set(const PlanContext& context) { context_ = context; }
  const PlanContext& context() const { return context_; }
  const MachineCosts& machine() const { return machine_; }
  /// Rows of the check without any draft nodes.
  int undrafted_rows() const { return context_.other_rows + 1; }

  /// Of a round without any drafts and prompts. What prompts add has to be spent in any case, and
  /// makes no time cheap: with it the tokens of such a round would seem to come slowly.
  double plain_ms() const {
    const int texts = undrafted_rows() - context_.prompt_rows;  // a row of each
    return machine_.check_ms(texts, context_.mean_position, texts) + machine_.rest_ms();
  }
  /// This sequence's share of it: what a token takes without drafts.
  double token_ms() const { return plain_ms() / context_.sequences; }
  /// What `nodes` of all sequences add to the check.
  double extra_ms(int nodes) const {
    return added_ms(undrafted_rows(), nodes, context_.mean_position);
  }
  /// What each node of this sequence adds to a check of `nodes` in all.
  double node_ms(int nodes) const {
    return added_ms(undrafted_rows(), nodes, context_.position) / std::max(1, nodes);
  }
  /// What `nodes` of this sequence add to it when earlier ones keep theirs.
  double further_ms(int nodes) const {
    return added_ms(undrafted_rows() + context_.drafted_rows, nodes, context_.position);
  }
  /// Tokens per millisecond: what a millisecond spent on drafting must bring. At least those of
  /// plain decoding.
  double rate() const {
    const double plain = context_.sequences / plain_ms();
    return rate_ms_ > 0 ? std::max(plain, rate_tokens_ / rate_ms_) : plain;
  }
  /// The round brought `tokens` to all sequences and took `ms`, its prompts left out.
  void learn(int tokens, double ms) {
    constexpr double kMemory = 0.95;  // weight of the past
    rate_tokens_ = kMemory * rate_tokens_ + tokens;
    rate_ms_ = kMemory * rate_ms_ + ms;
  }

 private:
  double added_ms(int rows, int nodes, int position) const {
    if (nodes == 0) return 0;
    const int all = rows + nodes * context_.node_rows;
    return machine_.check_ms(all, position) - machine_.check_ms(rows, position);
  }

  const MachineCosts& machine_;
  PlanContext context_;
  double rate_tokens_ = 0, rate_ms_ = 0;
};

}  // namespace talon
