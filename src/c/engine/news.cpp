#include "c/engine/news.h"

#include <numeric>

namespace talon {
namespace {

std::int32_t finish_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return TALON_FINISH_NONE;
    case FinishReason::stop_token:
    case FinishReason::complete:
      return TALON_FINISH_STOP_TOKEN;
    case FinishReason::stop_text:
      return TALON_FINISH_STOP_TEXT;
    case FinishReason::length:
      return TALON_FINISH_LENGTH;
    case FinishReason::cancelled:
      return TALON_FINISH_CANCELLED;
    case FinishReason::deadline:
      return TALON_FINISH_DEADLINE;
    case FinishReason::no_room:
      return TALON_FINISH_NO_ROOM;
    case FinishReason::failed:
      return TALON_FINISH_FAILED;
  }
  return TALON_FINISH_FAILED;
}

std::int32_t sum(const std::vector<int>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

}  // namespace

talon_statistics statistics_of(const SequenceStatistics& from) {
  talon_statistics to = {};
  to.size = sizeof to;
  to.prompt_tokens = from.prompt_tokens;
  to.reused_tokens = from.reused_tokens;
  to.answer_tokens = from.answer_tokens;
  to.rounds = from.rounds;
  to.accepted_tokens = sum(from.accepted);
  to.drafted_tokens = sum(from.drafted);
  to.preemptions = from.preemptions;
  to.tau = from.tau();
  to.tokens_per_second = from.tokens_per_second();
  to.waiting_ms = from.waiting_ms;
  to.prefill_ms = from.prefill_ms;
  to.decode_ms = from.decode_ms;
  to.draft_ms = from.draft_ms;
  to.check_ms = from.check_ms;
  if (from.answer_tokens > 0) to.distortion = from.distortion / from.answer_tokens;
  return to;
}

NewsOf::NewsOf(const Progress& progress, const SequenceStatistics& statistics)
    : text_(progress.text), error_(progress.error), statistics_(statistics_of(statistics)) {
  copy_logprobs(progress);
  news_.size = sizeof news_;
  news_.request = progress.sequence;
  news_.tokens = progress.tokens.data();
  news_.token_count = progress.tokens.size();
  news_.text = text_.c_str();
  news_.text_bytes = text_.size();
  news_.accepted = progress.accepted;
  news_.finish = finish_of(progress.finish);
  news_.error = error_.c_str();
  news_.statistics = &statistics_;
}

void NewsOf::copy_logprobs(const Progress& progress) {
  if (progress.logprobs.empty()) return;
  for (const TokenLogprobs& token : progress.logprobs) {
    token_logprobs_.push_back(token.log_p);
    for (const auto& [id, log_p] : token.top) top_.push_back({id, 0, log_p});
  }
  news_.token_logprobs = token_logprobs_.data();
  news_.top = top_.data();
  news_.top_count = progress.logprobs.front().top.size();
}

RoundOf::RoundOf(const RoundReport& report)
    : tokens_(report.tree->tokens()),
      emitted_(report.emitted.begin(), report.emitted.end()),
      parents_(report.tree->parents()),
      accepted_(report.accepted.begin(), report.accepted.end()),
      log_p_(report.tree->log_ps()) {
  round_.size = sizeof round_;
  round_.request = report.sequence;
  round_.round = report.round;
  round_.position = report.position;
  round_.tokens = tokens_.data();
  round_.parents = parents_.data();
  round_.log_p = log_p_.data();
  round_.node_count = tokens_.size();
  round_.accepted = accepted_.data();
  round_.accepted_count = accepted_.size();
  round_.emitted = emitted_.data();
  round_.emitted_count = emitted_.size();
  round_.draft_ms = report.draft_ms;
  round_.check_ms = report.check_ms;
}

}  // namespace talon

const char* talon_finish_name(int32_t finish) {
  using talon::FinishReason;
  for (int index = 0; index <= static_cast<int>(FinishReason::failed); ++index) {
    const auto reason = static_cast<FinishReason>(index);
    if (talon::finish_of(reason) == finish) return talon::name_of(reason).data();
  }
  return "unknown";
}
