#pragma once

#include <algorithm>
#include <vector>

#include "engine/round/scheduled.h"
#include "tree/cost_curve.h"
#include "tree/machine_costs.h"

namespace talon {

/// What the answers of a step ask of its check.
struct AnswerRows {
  int rows = 0;        // with their trees
  int texts = 0;       // whose keys and values they read
  long positions = 0;  // of those, committed

  /// A tree of so many nodes.
  void add(const Sequence& sequence, int nodes);
  double ms(const MachineCosts& costs) const { return costs.check_ms(rows, context(), texts); }
  /// Of a text, on average.
  int context() const { return static_cast<int>(positions / std::max(1, texts)); }
};

/// The time of a step that runs prompts beside answers, whose readers wait for it. Answers come
/// first, then their trees, and prompts get what is left; what a row of theirs takes is learned
/// from the steps that ran some.
class StepBudget {
 public:
  /// step_ms: EngineOptions::step_ms. Borrows the costs.
  StepBudget(double step_ms, const MachineCosts& costs) : step_ms_(step_ms), costs_(costs) {}

  /// `rows` of prompts added `ms` to their step: to its check, and to what drafters do with them.
  void observe(int rows, double ms);

  /// Rows of prompts that fit a step beside `answers`. At least kLeastRows, so that every prompt
  /// comes to its end. draft_ms: what was spent before the check.
  int rows_beside(const AnswerRows& answers, double draft_ms = 0) const;

  /// Takes from prompts what trees took of the step: the youngest lose first. A sequence that is
  /// left without a row waits for the next step.
  void make_way_for_trees(std::vector<Scheduled>& scheduled, double draft_ms) const;

  static constexpr int kLeastRows = 8;

 private:
  bool limited() const { return step_ms_ != 0; }

  double step_ms_;
  const MachineCosts& costs_;
  RecentMedian row_ms_;
};

}  // namespace talon
