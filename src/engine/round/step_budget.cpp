#include "engine/round/step_budget.h"

#include <algorithm>

#include "engine/engine.h"

namespace talon {
namespace {

constexpr int kFewRows = 16;  // less is noise: a check of few rows costs about as much as of one
constexpr int kMostPromptRows = 1 << 16;

// Of a usual step: long enough for prompts to come forward, and not so long that readers see a
// pause.
constexpr double kStepTokens = 10;  // that one answer alone would have had meanwhile
constexpr double kLeastStepMs = 25;
constexpr double kMostStepMs = 200;

double usual_step_ms(const MachineCosts& costs, int context) {
  return std::clamp(kStepTokens * costs.check_ms(1, context), kLeastStepMs, kMostStepMs);
}

}  // namespace

void AnswerRows::add(const Sequence& sequence, int nodes) {
  const int streams = sequence.streams();
  rows += nodes * streams;
  texts += streams;
  positions += static_cast<long>(streams) * (sequence.length() - 1);
}

void StepBudget::observe(int rows, double ms) {
  if (rows >= kFewRows && ms > 0) row_ms_.add(ms / rows);
}

int StepBudget::rows_beside(const AnswerRows& answers, double draft_ms) const {
  if (!limited() || answers.rows == 0) return kMostPromptRows;
  const double step_ms =
      step_ms_ == kUsualStep ? usual_step_ms(costs_, answers.context()) : step_ms_;
  const double others_ms = draft_ms + answers.ms(costs_) + costs_.rest_ms();
  const double row_ms =
      row_ms_.count() > 0
          ? row_ms_.value()
          : (costs_.check_ms(answers.rows + kFewRows) - costs_.check_ms(answers.rows)) / kFewRows;
  const double rows = (step_ms - others_ms) / std::max(row_ms, 1e-6);
  return static_cast<int>(std::clamp<double>(rows, kLeastRows, kMostPromptRows));
}

void StepBudget::make_way_for_trees(std::vector<Scheduled>& scheduled, double draft_ms) const {
  AnswerRows answers;
  for (const Scheduled& entry : scheduled) {
    if (entry.decodes) answers.add(*entry.sequence, entry.tree.size());
  }
  int left = rows_beside(answers, draft_ms);
  for (Scheduled& entry : scheduled) {
    if (entry.decodes) continue;
    const int rows = std::min(entry.grant.rows, left / entry.sequence->streams());
    if (rows < entry.grant.rows) entry.chooses = false;
    entry.grant.rows = rows;
    left -= rows * entry.sequence->streams();
  }
  std::erase_if(scheduled, [](const Scheduled& entry) { return entry.grant.rows == 0; });
}

}  // namespace talon
