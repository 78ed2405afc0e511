#include "text/encoder.h"

#include <algorithm>

namespace talon {
namespace {

constexpr std::string_view kEndTexts[] = {
    "</s>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eom|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<|EOT|>",
    "<|flush|>",
    "<|calls|>",
    "[e~[",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
};

/// Where there is one of the others (gpt-oss, Solar Open), the first ends a message and not the
/// answer: another message may follow.
constexpr std::string_view kMessageEnd = "<|end|>", kAnswerEnds[] = {"<|return|>", "<|flush|>"};

}  // namespace

void add_end_token(std::vector<TokenId>& ends, TokenId id) {
  if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
}

bool is_known_end_text(std::string_view text) {
  return std::ranges::find(kEndTexts, text) != std::end(kEndTexts);
}

void add_known_end_tokens(TokenizerParts& parts) {
  for (const std::string_view text : kEndTexts) {
    if (const auto id = parts.vocabulary.find_special(text)) add_end_token(parts.end_tokens, *id);
  }
  const auto end = parts.vocabulary.find_special(kMessageEnd);
  const bool answers_end = std::ranges::any_of(kAnswerEnds, [&](std::string_view text) {
    return parts.vocabulary.find_special(text).has_value();
  });
  if (end && answers_end) std::erase(parts.end_tokens, *end);
}

}  // namespace talon
