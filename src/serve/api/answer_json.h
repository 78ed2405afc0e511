#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/api/answer_format.h"

namespace talon {

/// A seed as a number that asks for it again: below 0, as clients may have given it, where it is
/// 2^63 or more, but for the last one, whose -1 would ask for any.
Json seed_json(std::uint64_t seed);
/// prompt_tokens, completion_tokens, total_tokens, how many of the prompt the cache had, how many
/// of the answer are reasoning, and how many of a prediction came and did not.
Json usage_json(const AnswerHead& head, const std::vector<ChoiceResult>& choices);
/// What every whole answer and the last piece of every stream says beside OpenAI's fields:
/// `timings` as llama.cpp has them, `talon` (seed, drafter and, where an answer ended early, why)
/// and, if the request asks for it, `metrics.speculative_decoding` as vLLM has it.
void add_statistics(Json& answer, const AnswerHead& head, const std::vector<ChoiceResult>& choices);

/// What ends a stream of OpenAI's completions or chats: a piece without choices for usage and
/// statistics, if the request asks for either, and the mark. last: what every piece begins with.
std::string stream_end(Json last, const AnswerHead& head, const std::vector<ChoiceResult>& choices);

/// `talon.rounds` of one choice, or of what is new of it, if the request asks for it.
void add_rounds(Json& choice, const AnswerHead& head, const ChoiceNews& news);

/// "stop", "length" or null.
Json finish_json(FinishReason reason);

/// calls: the answer has called tools; then "tool_calls" stands in place of "stop".
Json finish_json(FinishReason reason, bool calls);
/// A name for a call, which the client gives back with what it gave.
std::string new_call_id(ToolDialect dialect);

/// How many of an answer's tokens made what of it is reasoning; marks count to what follows them.
int reasoning_tokens(const AnswerHead& head, const ChoiceResult& choice);

/// Where a token begins in bytes that need not be characters: text repaired, and the bytes.
std::string token_text(const Tokenizer& tokenizer, TokenId token);
/// One entry of the `content` of a chat's logprobs.
Json chat_logprob(const Tokenizer& tokenizer, const TokenLogprobs& token);
/// As JSON has no infinity.
double finite_log_p(double log_p);

/// "chatcmpl-" and a number that nobody else has.
std::string new_id(std::string_view prefix);
AnswerHead make_head(std::string_view id_prefix, const ServedModel& model, AnswerFields fields);

}  // namespace talon
