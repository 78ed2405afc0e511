#include "engine/sequence.h"

#include <algorithm>

#include "core/hold_room.h"

namespace talon {
namespace {

SamplerOptions sampler_options(const Request& request) {
  SamplerOptions options = request.sampler;
  if (request.min_new == 0) return options;
  options.banned_early.insert(options.banned_early.end(), request.end_tokens.begin(),
                              request.end_tokens.end());
  options.least_answer = std::max(options.least_answer, request.min_new);
  return options;
}

}  // namespace

Sequence::Sequence(SequenceId its_id, Request its_request,
                   std::shared_ptr<const MethodEntry> its_method, int vocabulary,
                   const Tokenizer* tokenizer)
    : id(its_id),
      request(std::move(its_request)),
      method_owner(std::move(its_method)),
      method(*method_owner),
      sampler(sampler_options(request), vocabulary),
      random(request.seed, request.choice),
      tokens(request.prompt),
      stop_matcher(request.stop_texts) {
  if (tokenizer) detokenizer.emplace(*tokenizer, !request.shows_special);
  if (request.constraint) {
    constraint.emplace(request.constraint->start(request.end_tokens));
    sampler.constrain(*constraint);
  }
  statistics.prompt_tokens = prompt_length();
  new_begin = tokens.size();
}

void Sequence::begin_round(Clock::time_point now) {
  new_begin = tokens.size();
  readable = 0;
  accepted_new = 0;
  text.clear();
  logprobs.clear();
  if (constraint) constraint->begin_round();
  if (finished() || !is_over(now)) return;
  if (in_prompt()) {
    statistics.unread_tokens = prompt_length() - std::max(computed, cache ? cache->length() : 0);
  }
  end(cancelled ? FinishReason::cancelled : FinishReason::deadline);
}

void Sequence::read(std::span<const TokenId> next_tokens) {
  readable = 0;
  hold_room(tokens, tokens.size() + next_tokens.size());
  hold_room(statistics.accepted, statistics.accepted.size() + 1);
  hold_room(statistics.drafted, statistics.drafted.size() + 1);
  for (const TokenId token : next_tokens) {
    FinishReason reason = read_one(token);
    ++readable;
    const auto read = next_tokens.first(static_cast<std::size_t>(readable));
    const bool goes_on = reason == FinishReason::none || reason == FinishReason::length;
    if (goes_on && is_complete(read)) reason = FinishReason::complete;
    if (reason != FinishReason::none) return end(reason);
  }
}

FinishReason Sequence::read_one(TokenId token) {
  const auto& ends = request.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return FinishReason::stop_token;
  if (read_text(token)) return FinishReason::stop_text;
  return length() + readable + 1 == limit ? limit_reason : FinishReason::none;
}

bool Sequence::is_complete(std::span<const TokenId> next_tokens) {
  return constraint && constraint->is_complete({answer(), next_tokens});
}

/// Whether a stop text is complete.
bool Sequence::read_text(TokenId token) {
  if (!detokenizer) return false;
  if (length() + readable - prompt_length() + 1 < request.min_new) {
    text += detokenizer->push(token);
    return false;
  }
  const StopMatcher::Output output = stop_matcher.push(detokenizer->push(token));
  text += output.text;
  return output.stopped;
}

void Sequence::append(std::span<const TokenId> next_tokens) noexcept {
  const auto read = next_tokens.first(static_cast<std::size_t>(readable));
  tokens.insert(tokens.end(), read.begin(), read.end());  // read() made room
  statistics.answer_tokens += readable;
  if (logprobs.size() > read.size()) logprobs.resize(read.size());
}

void Sequence::drop_to_plain(Faults& faults) noexcept {
  draft.reset();
  policy.reset();
  faults.note_drop();
}

CommittedTokens Sequence::tokens_since(int first) const {
  const int end = std::min(cache->length() + 1, length());
  CommittedTokens committed;
  committed.tokens =
      std::span(tokens).subspan(static_cast<std::size_t>(first),
                                static_cast<std::size_t>(end) - static_cast<std::size_t>(first));
  committed.first_position = first;
  committed.first_has_row = first > 0;
  committed.vectors = vectors_of(first, static_cast<int>(committed.tokens.size()));
  return committed;
}

std::vector<TokenId> Sequence::expected_text() const {
  constexpr std::size_t kLead = 16;
  if (!request.expected) return {};
  const std::size_t lead = std::min(kLead, request.prompt.size());
  std::vector<TokenId> result(request.prompt.end() - static_cast<std::ptrdiff_t>(lead),
                              request.prompt.end());
  result.insert(result.end(), request.expected->begin(), request.expected->end());
  return result;
}

std::span<const float> Sequence::vectors_of(int first, int rows) const {
  const int count = std::min(first + rows, prompt_length()) - first;
  if (!request.prompt_vectors || count <= 0) return {};
  const std::span<const float> all = *request.prompt_vectors;
  const std::size_t width = all.size() / request.prompt.size();
  return all.subspan(static_cast<std::size_t>(first) * width,
                     static_cast<std::size_t>(count) * width);
}

void Sequence::end(FinishReason reason) {
  if (reason != FinishReason::stop_text) flush_text();
  finish = reason;
}

void Sequence::fail(std::string_view reason) noexcept {
  finish = FinishReason::failed;
  assign_or_say_why_not(error, reason);
  try {
    flush_text();
  } catch (...) {  // then what was held back of its text is lost as well
  }
}

void Sequence::flush_text() {
  if (!detokenizer) return;
  text += stop_matcher.push(detokenizer->finish()).text;
  text += stop_matcher.finish();
}

}  // namespace talon
