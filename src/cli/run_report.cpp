#include "cli/run_report.h"

#include <fmt/core.h>

#include <numeric>

namespace talon {

std::string speed_text(const Answer& answer) {
  return fmt::format("{:.1f} tok/s, tau {:.2f}", answer.tokens_per_second(), answer.tau());
}

std::string statistics_text(const Answer& answer) {
  const SequenceStatistics& s = answer.statistics;
  const int drafted = std::accumulate(s.drafted.begin(), s.drafted.end(), 0);
  const int accepted = std::accumulate(s.accepted.begin(), s.accepted.end(), 0);
  const double rounds = s.rounds > 0 ? s.rounds : 1;
  return fmt::format(
      "prompt {} tokens ({} found in the cache) in {:.1f} ms; answer {} tokens in {:.1f} ms; {} "
      "checks, {} drafted, "
      "{} accepted; per check {:.2f} ms drafting, {:.2f} ms checking; ended by {}",
      s.prompt_tokens, s.reused_tokens, s.prefill_ms, answer.tokens.size(), s.decode_ms, s.rounds,
      drafted, accepted, s.draft_ms / rounds, s.check_ms / rounds, name_of(answer.finish));
}

Json answer_json(const Answer& answer, const DecodeSettings& settings) {
  const SequenceStatistics& s = answer.statistics;
  return {{"text", answer.text},
          {"tokens", answer.tokens},
          {"finish", name_of(answer.finish)},
          {"rounds", s.rounds},
          {"accepted", s.accepted},
          {"drafted", s.drafted},
          {"tau", answer.tau()},
          {"prefill_ms", s.prefill_ms},
          {"decode_ms", s.decode_ms},
          {"decode_tok_s", answer.tokens_per_second()},
          {"draft_ms", s.draft_ms},
          {"check_ms", s.check_ms},
          {"reused_tokens", s.reused_tokens},
          {"drafter", settings.drafter},
          {"policy", settings.policy},
          {"verify", settings.verify}};
}

double speed_up(const Answer& drafted, const Answer& plain) {
  const double base = plain.tokens_per_second();
  return base > 0 ? drafted.tokens_per_second() / base : 0;
}

}  // namespace talon
