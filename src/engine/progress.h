#pragma once

#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "sample/log_probabilities.h"

namespace talon {

/// Why an answer ended.
enum class FinishReason {
  none,        // it goes on
  stop_token,  // one of Request::end_tokens
  complete,    // its constraint lets nothing follow
  stop_text,   // one of Request::stop_texts
  length,      // it has max_new tokens, or the model's context is full
  cancelled,
  deadline,
  no_room,  // the cache cannot hold more of this answer, whatever else runs
  failed    // something threw that the answer needs, or the model gave no usable numbers
};
/// The reason's name here, but "stop" of stop_token and complete. Each has a zero byte behind it.
std::string_view name_of(FinishReason reason);

/// One round's news of a sequence.
struct Progress {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  // new this round; valid until the next step
  int accepted = 0;                 // how many of the first of them had been drafted
  std::string_view text;  // new text when the engine has a tokenizer, held back by stop texts;
                          // valid until the next step
  /// Of the tokens, if the request asked for them; valid until the next step.
  std::span<const TokenLogprobs> logprobs;
  FinishReason finish = FinishReason::none;
  std::string_view error;  // why, when finish is failed; valid until the next step
};

struct SequenceStatistics {
  int prompt_tokens = 0;
  int reused_tokens = 0;      // of the prompt, found in the cache when it was first admitted
  int unread_tokens = 0;      // of the prompt, not run before the answer was cut
  int preemptions = 0;        // how often it gave its room to older ones and waited again
  int recomputed_tokens = 0;  // run again after that
  int answer_tokens = 0;      // the first comes from the prefill: 1 + rounds + the sum of accepted
  int rounds = 0;             // checks after the prefill
  std::vector<int> accepted;  // tokens a round emitted, less one: the draft nodes accepted, unless
                              // the text ended within
  std::vector<int> drafted;   // draft nodes checked per round
  double waiting_ms = 0;      // for room in the cache, also after it was set back
  double prefill_ms = 0;      // wall time of the steps that ran its prompt, or its text again
  double decode_ms = 0;       // wall time of the steps that checked its trees
  double draft_ms = 0;        // the part of decode_ms in the drafter and the policy
  double check_ms = 0;        // the part of decode_ms in the target
  double distortion = 0;      // summed over rounds (VerifyResult::distortion); 0 for lossless rules
  double relaxed = 0;         // VerifyResult::relaxed summed over rounds, a part of all accepted

  /// Tokens emitted per check, that is mean accepted + 1; 1 when nothing was checked.
  double tau() const {
    if (accepted.empty()) return 1;
    const double sum = std::accumulate(accepted.begin(), accepted.end(), 0.0);
    return 1 + sum / static_cast<double>(accepted.size());
  }
  /// Tokens per second after the prefill, which made the first one; 0 before that.
  double tokens_per_second() const {
    return answer_tokens < 2 || decode_ms <= 0 ? 0 : (answer_tokens - 1) / decode_ms * 1000;
  }
};

}  // namespace talon
