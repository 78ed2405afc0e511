#pragma once

#include "golden_data.h"
#include "model_run.h"

namespace talon {

/// How far an engine is from the recorded float32 outputs, teacher-forced.
struct Deviation {
  double last_logits_max = 0;  // of the recorded logits after the prompt, and of their statistics
  double nll_mean_abs = 0, nll_max = 0;
  double nll_mean_difference = 0;  // of the means
  double argmax_agreement = 1;
  double largest_missed_margin = 0;  // recorded margin of a row whose argmax differs
  int rows = 0;
};

/// Feeds prompt and greedy tokens of the cases [first, last) in one go each.
Deviation check_cases(ModelRun& run, std::span<const GoldenCase> cases);
/// Feeds the first `rows` tokens of the passage.
Deviation check_text(ModelRun& run, const GoldenText& text, int rows);

/// The same figures for recorded likelihoods.
Deviation peer_deviation(const GoldenPeer& peer, const GoldenText& text, int rows);

void print(const std::string& what, const Deviation& deviation);

}  // namespace talon
