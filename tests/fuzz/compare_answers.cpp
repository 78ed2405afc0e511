#include "compare_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace talon::fuzz {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_logprobs(const TokenLogprobs& a, const TokenLogprobs& b) {
  const auto same_entry = [](const auto& one, const auto& other) {
    return one.first == other.first && same_bits(one.second, other.second);
  };
  return a.token == b.token && same_bits(a.log_p, b.log_p) &&
         std::ranges::equal(a.top, b.top, same_entry);
}

/// One for each token where they were asked for, else none. The tokens of a round that fails are
/// not told.
bool has_its_logprobs(const Request& asked, const FullAnswer& found) {
  if (asked.logprobs < 0) return found.logprobs.empty();
  if (found.finish == FinishReason::failed) return true;
  return std::ranges::equal(found.logprobs, found.tokens, {}, &TokenLogprobs::token);
}

bool holds(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

/// Whether it could end for the reason that it gives.
bool ended_well(const Request& asked, const FullAnswer& found, const Askable& of) {
  const std::size_t length = found.tokens.size();
  switch (found.finish) {
    case FinishReason::stop_token:
      return length > 0 && holds(asked.end_tokens, found.tokens.back());
    case FinishReason::stop_text:
      return !asked.stop_texts.empty();
    case FinishReason::complete:
      return asked.constraint != nullptr;
    case FinishReason::length:
      return length == static_cast<std::size_t>(asked.max_new) ||
             asked.prompt.size() + length == static_cast<std::size_t>(of.context);
    case FinishReason::failed:  // where nothing but what is banned may follow
      return asked.constraint != nullptr;
    case FinishReason::cancelled:
    case FinishReason::deadline:
    case FinishReason::no_room:
      return true;
    case FinishReason::none:
      return false;
  }
  return false;
}

/// The first token that the request does not allow, or how many there are.
std::size_t allowed_tokens(const Request& asked, const FullAnswer& found, const Askable& of) {
  const std::span<const TokenId> tokens = found.tokens;
  const auto constraint = asked.constraint ? asked.constraint->start(asked.end_tokens) : nullptr;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool known = tokens[i] >= 0 && tokens[i] < of.vocabulary;
    if (!known || holds(asked.sampler.banned, tokens[i])) return i;
    const AnswerTokens before{tokens.first(i), {}};
    if (constraint && !constraint->allows(before, tokens[i])) return i;
  }
  return tokens.size();
}

}  // namespace

bool is_exact(const Verifier& rule, const SamplerOptions& sampler) {
  return rule.drafts_may_know_noise() || (rule.lossless() && sampler.temperature == 0);
}

bool is_beginning(const Request& asked, const FullAnswer& found, const FullAnswer& expected) {
  const auto begins = [](const auto& all, const auto& part, const auto& same) {
    return part.size() <= all.size() && std::equal(part.begin(), part.end(), all.begin(), same);
  };
  return begins(expected.tokens, found.tokens, std::equal_to<>()) &&
         begins(expected.logprobs, found.logprobs, same_logprobs) && has_its_logprobs(asked, found);
}

bool is_same(const Request& asked, const FullAnswer& found, const FullAnswer& expected,
             bool says_why) {
  if (found.finish != expected.finish || found.tokens != expected.tokens) return false;
  if (found.finish == FinishReason::failed) return !says_why || found.error == expected.error;
  return found.text == expected.text && found.error == expected.error &&
         found.logprobs.size() == expected.logprobs.size() && is_beginning(asked, found, expected);
}

std::string what_is_wrong(const Request& asked, const FullAnswer& found, const Askable& of) {
  if (!has_its_logprobs(asked, found)) return "log-probabilities of other tokens";
  if (found.tokens.size() > static_cast<std::size_t>(asked.max_new)) return "too many tokens";
  if (const std::size_t allowed = allowed_tokens(asked, found, of); allowed < found.tokens.size()) {
    return fmt::format("token {} of the answer, {}, is not allowed", allowed,
                       found.tokens[allowed]);
  }
  if (ended_well(asked, found, of)) return {};
  return fmt::format("an end without a reason: {} {}", name_of(found.finish), found.error);
}

}  // namespace talon::fuzz
