#pragma once

#include "tree/cost_curve.h"
#include "tree/machine_costs.h"

namespace talon {

/// Of a step that runs prompts beside answers, unless something else is asked for: long enough for
/// prompts to come forward, and not so long that readers see a pause.
double usual_step_ms(const MachineCosts& costs);

/// What a row of a prompt takes, learned from the steps that ran some: how many of them a step may
/// run so that it takes about as long as it should.
class PromptCosts {
 public:
  /// A check with `rows` rows of prompts took `ms` more than without them.
  void observe(int rows, double ms);
  /// At least kLeastRows, so that every prompt comes to its end. decoding: other rows of the step.
  int rows_within(double step_ms, int decoding, const MachineCosts& costs) const;

  static constexpr int kLeastRows = 8;

 private:
  RecentMedian row_ms_;
};

}  // namespace talon
