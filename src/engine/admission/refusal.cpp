#include "engine/admission/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "engine/admission/admission.h"

namespace talon {
namespace {

// Every token is compared with each of them.
constexpr std::size_t kMostStopTexts = 64, kMostStopBytes = 4096;

Refusal bad_request(std::string message) {
  return {Refusal::Reason::bad_request, std::move(message)};
}

std::optional<Refusal> refuse_vectors(const Request& request, const ModelConfig& config) {
  if (!request.prompt_vectors) return std::nullopt;
  const std::size_t wanted = request.prompt.size() * static_cast<std::size_t>(config.hidden);
  const std::vector<float>& found = *request.prompt_vectors;
  if (!config.image || found.size() != wanted) {
    return bad_request(fmt::format(
        "prompt_vectors: expected {} values, {} for each token of a picture's prompt, found {}",
        config.image ? wanted : 0, config.hidden, found.size()));
  }
  if (!std::ranges::all_of(found, [](float value) { return std::isfinite(value); }))
    return bad_request("prompt_vectors: expected finite values, found others");
  return std::nullopt;
}

std::optional<Refusal> refuse_prompt(const Request& request, const ModelConfig& config) {
  if (request.prompt.empty()) return bad_request("prompt: expected at least one token, found none");
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    const TokenId token = request.prompt[i];
    const int first = config.image ? config.vocabulary : 0;
    if (token < first || token >= config.input_count()) {
      return bad_request(fmt::format("prompt token {}: expected an id from {} to {}, found {}", i,
                                     first, config.input_count() - 1, token));
    }
  }
  if (config.image) {
    const bool varies = config.image->prompts_vary();
    const std::ptrdiff_t wanted = config.image->prompt_tokens, found = std::ssize(request.prompt);
    if (varies ? found > wanted : found != wanted) {
      return bad_request(
          fmt::format("prompt: expected {} tokens{}, found {}",
                      varies ? fmt::format("at most {}", wanted) : fmt::to_string(wanted),
                      varies ? "" : ", as every picture has", found));
    }
  }
  if (auto refusal = refuse_vectors(request, config)) return refusal;
  const auto length = static_cast<long>(request.prompt.size());
  if (length >= config.context) {
    return Refusal{
        Refusal::Reason::too_long,
        fmt::format("prompt: expected at most {} tokens, one less than the context, found {}",
                    config.context - 1, length)};
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_ids(std::string_view field, std::span<const TokenId> ids,
                                  const ModelConfig& config) {
  for (const TokenId token : ids) {
    if (token >= 0 && token < config.vocabulary) continue;
    return bad_request(fmt::format("{}: expected ids from 0 to {}, found {}", field,
                                   config.vocabulary - 1, token));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_expected(const Request& request, const ModelConfig& config) {
  if (!request.expected) return std::nullopt;
  if (std::ssize(*request.expected) > config.context) {
    return bad_request(fmt::format("expected: expected at most {} tokens, the context, found {}",
                                   config.context, request.expected->size()));
  }
  return refuse_ids("expected", *request.expected, config);
}

std::optional<Refusal> refuse_guidance(const Request& request, const ModelConfig& config) {
  if (!std::isfinite(request.guidance) || request.guidance < 0) {
    return bad_request(
        fmt::format("guidance: expected a number from 0 on, found {}", request.guidance));
  }
  if (request.guidance_tokens < 0 || request.guidance_tokens > config.context) {
    return bad_request(fmt::format("guidance_tokens: expected from 0 to {}, found {}",
                                   config.context, request.guidance_tokens));
  }
  if (request.streams() == 1) return std::nullopt;
  if (!config.image) {
    return bad_request(fmt::format(
        "guidance: expected at most 1 of a model that writes text, found {}", request.guidance));
  }
  const bool may_be_shorter = config.image->text_tokens > 0 && !request.guide_prompt.empty() &&
                              request.guide_prompt.size() < request.prompt.size();
  if (request.guide_prompt.size() != request.prompt.size() && !may_be_shorter) {
    return bad_request(fmt::format("guide_prompt: expected {} tokens, as the prompt has, found {}",
                                   request.prompt.size(), request.guide_prompt.size()));
  }
  for (const TokenId token : request.guide_prompt) {
    if (token >= config.vocabulary && token < config.input_count()) continue;
    return bad_request(fmt::format("guide_prompt: expected ids from {} to {}, found {}",
                                   config.vocabulary, config.input_count() - 1, token));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_stop_texts(std::span<const std::string> texts,
                                         const EngineOptions& options) {
  if (!texts.empty() && !options.tokenizer) {
    return bad_request("stop_texts: expected an engine with a tokenizer, found one without");
  }
  if (texts.size() > kMostStopTexts) {
    return bad_request(fmt::format("stop_texts: expected at most {} texts, found {}",
                                   kMostStopTexts, texts.size()));
  }
  for (const std::string& text : texts) {
    if (text.empty()) return bad_request("stop_texts: expected texts, found an empty one");
    if (text.size() > kMostStopBytes) {
      return bad_request(fmt::format("stop_texts: expected texts of at most {} bytes, found {}",
                                     kMostStopBytes, text.size()));
    }
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_options(const Request& request, const ModelConfig& config,
                                      const EngineOptions& options) {
  if (request.max_new < 1) {
    return bad_request(fmt::format("max_new: expected at least 1, found {}", request.max_new));
  }
  if (request.min_new < 0 || request.min_new > request.max_new) {
    return bad_request(fmt::format("min_new: expected from 0 to max_new, {}, found {}",
                                   request.max_new, request.min_new));
  }
  if (auto refusal = refuse_stop_texts(request.stop_texts, options)) return refusal;
  // Nothing is meant by more entries than there are tokens.
  const auto vocabulary = static_cast<std::size_t>(config.vocabulary);
  const std::pair<std::string_view, std::size_t> lists[] = {
      {"end_tokens", request.end_tokens.size()},
      {"sampler logit_bias", request.sampler.logit_bias.size()},
      {"sampler banned", request.sampler.banned.size()}};
  for (const auto& [name, size] : lists) {
    if (size > vocabulary) {
      return bad_request(
          fmt::format("{}: expected at most {} tokens, found {}", name, vocabulary, size));
    }
  }
  if (auto refusal = refuse_ids("end_tokens", request.end_tokens, config)) return refusal;
  if (config.image && request.sampler.repetition_penalty != 1) {
    return bad_request(fmt::format(
        "sampler repetition_penalty: expected 1 of a model that draws pictures, found {}",
        request.sampler.repetition_penalty));
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
  if (auto refusal = refuse_expected(request, config)) return refusal;
  if (auto refusal = refuse_guidance(request, config)) return refusal;
  if (auto refusal = refuse_options(request, config, options)) return refusal;
  const auto length = static_cast<long>(request.prompt.size());
  if (target.cache().total_pages() < request.streams()) {
    return Refusal{Refusal::Reason::no_room,
                   fmt::format("guidance: expected a cache of at least {} pages, found {}",
                               request.streams(), target.cache().total_pages())};
  }
  if (length >= cache_positions(request, target.cache())) {
    return Refusal{
        Refusal::Reason::no_room,
        fmt::format("prompt: expected at most {} tokens, one less than the cache holds, found {}",
                    cache_positions(request, target.cache()) - 1, length)};
  }
  return std::nullopt;
}

}  // namespace talon
