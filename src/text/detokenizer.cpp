#include "text/detokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace talon {
namespace {

/// Bytes at the end of `text` that may be the beginning of `stop`, fewer than all of `stop`.
std::size_t unfinished_match(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool continues_text)
    : tokenizer_(&tokenizer),
      skip_special_(skip_special),
      drop_space_(tokenizer.drops_first_space() && !continues_text) {}

std::string Detokenizer::push(TokenId token) {
  const std::string bytes = tokenizer_->bytes_of(token);
  if (bytes.empty() || (skip_special_ && tokenizer_->is_special(token))) return {};
  const bool drop = drop_space_ && bytes[0] == ' ';
  drop_space_ = false;
  pending_.append(bytes, drop ? 1 : 0);
  std::string text;
  pending_.erase(0, append_well_formed(text, pending_));
  return text;
}

std::string Detokenizer::finish() {
  std::string text = replace_ill_formed(pending_);
  pending_.clear();
  return text;
}

StopMatcher::StopMatcher(std::vector<std::string> stop_texts) : stop_texts_(std::move(stop_texts)) {
  std::erase(stop_texts_, "");
}

StopMatcher::Output StopMatcher::push(std::string_view piece) {
  if (stopped_) return {"", true};
  held_.append(piece);
  // The match that is complete first wins, so that how the text was cut into pieces changes
  // nothing; of those that end together, the longest.
  std::size_t first_end = std::string::npos;
  std::size_t first_begin = std::string::npos;
  std::size_t keep = 0;
  for (const std::string& stop : stop_texts_) {
    const std::size_t begin = held_.find(stop);
    if (begin == std::string::npos) {
      keep = std::max(keep, unfinished_match(held_, stop));
      continue;
    }
    const std::size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && begin < first_begin)) {
      first_end = end;
      first_begin = begin;
    }
  }
  stopped_ = first_end != std::string::npos;
  Output output{held_.substr(0, stopped_ ? first_begin : held_.size() - keep), stopped_};
  held_.erase(0, stopped_ ? held_.size() : output.text.size());
  return output;
}

std::string StopMatcher::finish() {
  std::string text = std::move(held_);
  held_.clear();
  return text;
}

}  // namespace talon
