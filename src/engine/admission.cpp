#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

long cache_positions(Target& target) {
  return static_cast<long>(target.cache().total_pages()) * kPageRows;
}

Refusal bad_request(std::string message) {
  return {Refusal::Reason::bad_request, std::move(message)};
}

std::optional<Refusal> refuse_prompt(const Request& request, const ModelConfig& config) {
  if (request.prompt.empty()) return bad_request("prompt: expected at least one token, found none");
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    const TokenId token = request.prompt[i];
    if (token < 0 || token >= config.vocabulary) {
      return bad_request(fmt::format("prompt token {}: expected an id from 0 to {}, found {}", i,
                                     config.vocabulary - 1, token));
    }
  }
  const auto length = static_cast<long>(request.prompt.size());
  if (length >= config.context) {
    return Refusal{
        Refusal::Reason::too_long,
        fmt::format("prompt: expected at most {} tokens, one less than the context, found {}",
                    config.context - 1, length)};
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_options(const Request& request, const ModelConfig& config,
                                      const EngineOptions& options) {
  if (request.max_new < 1) {
    return bad_request(fmt::format("max_new: expected at least 1, found {}", request.max_new));
  }
  if (!request.stop_texts.empty() && !options.tokenizer) {
    return bad_request("stop_texts: expected an engine with a tokenizer, found one without");
  }
  const auto& stops = request.stop_texts;
  if (std::find(stops.begin(), stops.end(), "") != stops.end()) {
    return bad_request("stop_texts: expected texts, found an empty one");
  }
  try {
    check(request.sampler, config.vocabulary);
  } catch (const UsageError& error) {
    return bad_request(error.what());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> refuse(const Request& request, Target& target,
                              const EngineOptions& options) {
  const ModelConfig& config = target.model().config;
  if (auto refusal = refuse_prompt(request, config)) return refusal;
  if (auto refusal = refuse_options(request, config, options)) return refusal;
  const auto length = static_cast<long>(request.prompt.size());
  if (length >= cache_positions(target)) {
    return Refusal{
        Refusal::Reason::no_room,
        fmt::format("prompt: expected at most {} tokens, one less than the cache holds, found {}",
                    cache_positions(target) - 1, length)};
  }
  return std::nullopt;
}

bool claim_room(Sequence& sequence, Target& target, int most_reused) {
  const long wanted = static_cast<long>(sequence.prompt_length()) + sequence.request.max_new;
  const long most = std::min(wanted, static_cast<long>(target.model().config.context));
  sequence.limit = static_cast<int>(std::min(most, cache_positions(target)));
  sequence.limit_reason = sequence.limit < most ? FinishReason::no_room : FinishReason::length;

  const bool reuse = sequence.request.reuse_prefix && most_reused > 0;
  KvSequence cache = target.cache().start(sequence.request.prompt, reuse);
  if (cache.length() > most_reused) cache.truncate(most_reused);
  if (!cache.reserve(sequence.limit - cache.length())) return false;
  sequence.statistics.reused_tokens = cache.length();
  sequence.cache.emplace(std::move(cache));
  return true;
}

}  // namespace talon
