#include "engine/sequence.h"

#include <algorithm>

namespace talon {

Sequence::Sequence(SequenceId name, Request asked, int vocabulary, const Tokenizer* tokenizer)
    : id(name),
      request(std::move(asked)),
      sampler(request.sampler, vocabulary),
      random(request.seed, request.choice),
      tokens(request.prompt),
      stop_matcher(request.stop_texts) {
  if (tokenizer) detokenizer.emplace(*tokenizer);
  statistics.prompt_tokens = prompt_length();
  news_begin = tokens.size();
}

void Sequence::begin_round() {
  news_begin = tokens.size();
  accepted_news = 0;
  text.clear();
  if (cancelled) end(FinishReason::cancelled);
}

int Sequence::append(std::span<const TokenId> next_tokens) {
  int appended = 0;
  for (const TokenId token : next_tokens) {
    const FinishReason reason = append_one(token);
    ++appended;
    if (reason == FinishReason::none) continue;
    end(reason);
    break;
  }
  statistics.answer_tokens += appended;
  return appended;
}

FinishReason Sequence::append_one(TokenId token) {
  tokens.push_back(token);
  const auto& ends = request.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return FinishReason::stop_token;
  if (append_text(token)) return FinishReason::stop_text;
  return length() == limit ? limit_reason : FinishReason::none;
}

/// Whether a stop text is complete.
bool Sequence::append_text(TokenId token) {
  if (!detokenizer) return false;
  const StopMatcher::Output output = stop_matcher.push(detokenizer->push(token));
  text += output.text;
  return output.stopped;
}

void Sequence::end(FinishReason reason) {
  finish = reason;
  if (!detokenizer || reason == FinishReason::stop_text) return;
  text += stop_matcher.push(detokenizer->finish()).text;
  text += stop_matcher.finish();
}

}  // namespace talon
