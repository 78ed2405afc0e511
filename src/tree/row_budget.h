#pragma once

#include <functional>
#include <span>
#include <vector>

namespace talon {

/// How many of `chances` (descending) to check: the count whose expected tokens, less the time they
/// take at `rate` tokens per millisecond, are most (docs/methods.md 6.1). extra_ms(n): what n nodes
/// add to the check; it may have steps, so all counts are tried.
int best_count(std::span<const double> chances, const std::function<double(int)>& extra_ms,
               double rate);

/// One budget of rows for all sequences of a round: every sequence offers the chances of its nodes,
/// and what is worth its time anywhere is bought at one price. A sequence may ask that its nodes
/// gain `margin` times what they cost: a node's worth is its chance / margin. One per engine.
class RowBudget {
 public:
  void begin_round();
  /// Chances of nodes that one sequence could afford.
  void offer(std::span<const double> chances, double margin = 1);
  /// Fixes what is bought. Only the first call of a round counts.
  void settle(const std::function<double(int)>& extra_ms, double rate);
  /// Whether the round buys a node of that chance, offered at that margin. Asked once per offered
  /// node.
  bool buy(double chance, double margin = 1);

 private:
  std::vector<double> offers_;  // worths
  bool settled_ = false;
  double price_ = 0;   // the least worth that is bought
  int ties_left_ = 0;  // nodes of just that worth still to be bought
};

}  // namespace talon
