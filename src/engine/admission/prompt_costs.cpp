#include "engine/admission/prompt_costs.h"

#include <algorithm>

namespace talon {
namespace {

constexpr int kFewRows = 16;  // less is noise: a check of few rows costs about as much as of one
constexpr int kMostRows = 1 << 16;

constexpr double kStepTokens = 10;  // that one answer alone would have had meanwhile
constexpr double kLeastStepMs = 25;
constexpr double kMostStepMs = 200;

}  // namespace

double usual_step_ms(const MachineCosts& costs) {
  return std::clamp(kStepTokens * costs.check_ms(1), kLeastStepMs, kMostStepMs);
}

void PromptCosts::observe(int rows, double ms) {
  if (rows >= kFewRows && ms > 0) row_ms_.add(ms / rows);
}

int PromptCosts::rows_within(double step_ms, int decoding, const MachineCosts& costs) const {
  const double others_ms = costs.check_ms(decoding) + costs.rest_ms();
  const double row_ms =
      row_ms_.count() > 0
          ? row_ms_.value()
          : (costs.check_ms(decoding + kFewRows) - costs.check_ms(decoding)) / kFewRows;
  const double rows = (step_ms - others_ms) / std::max(row_ms, 1e-6);
  return static_cast<int>(std::clamp<double>(rows, kLeastRows, kMostRows));
}

}  // namespace talon
