#include "c/request.h"

#include <cmath>

#include "c/defaults.h"
#include "c/handles.h"
#include "c/structs.h"

namespace talon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMostDeadlineMs = 1e12;

std::vector<TokenId> copy(std::span<const TokenId> tokens) {
  return {tokens.begin(), tokens.end()};
}

std::vector<std::string> stop_texts_of(const talon_request& request) {
  std::vector<std::string> texts;
  for (const char* text :
       require_array(request.stop_texts, request.stop_text_count, "request->stop_texts")) {
    texts.emplace_back(
        &require_pointer(text, fmt::format("request->stop_texts[{}]", texts.size()), "a text"));
  }
  return texts;
}

Clock::time_point deadline_of(double ms) {
  require(std::isfinite(ms) && ms >= 0 && ms <= kMostDeadlineMs, "request->deadline_ms",
          "0 (none) to 1e12", ms);
  if (ms == 0) return Clock::time_point::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

talon_request read_request(const talon_request* given) {
  require_pointer(given, "request", "a request");
  const talon_request request = read_struct(given, default_request(), "request");
  const auto prompt = require_array(request.prompt, request.prompt_count, "request->prompt");
  require(!prompt.empty(), "request->prompt_count", "at least one token", prompt.size());
  return request;
}

SamplerOptions sampler_of(const talon_request& request) {
  SamplerOptions sampler;
  sampler.temperature = request.temperature;
  sampler.top_k = request.top_k;
  sampler.top_p = request.top_p;
  sampler.min_p = request.min_p;
  sampler.typical_p = request.typical_p;
  sampler.repetition_penalty = request.repetition_penalty;
  sampler.presence_penalty = request.presence_penalty;
  sampler.frequency_penalty = request.frequency_penalty;
  sampler.penalty_window = request.penalty_window;
  const auto tokens =
      require_array(request.bias_tokens, request.bias_count, "request->bias_tokens");
  const auto values =
      require_array(request.bias_values, request.bias_count, "request->bias_values");
  for (std::size_t i = 0; i < tokens.size(); ++i)
    sampler.logit_bias.emplace_back(tokens[i], values[i]);
  sampler.banned = copy(require_array(request.banned, request.banned_count, "request->banned"));
  return sampler;
}

SamplerOptions checked_sampler_of(const talon_request& request, int vocabulary) {
  SamplerOptions sampler = sampler_of(request);
  try {
    check(sampler, vocabulary);
  } catch (const UsageError& error) {
    throw UsageError(of_request(error.what()));
  }
  return sampler;
}

std::string of_request(std::string_view message) {
  constexpr std::string_view kSampler = "sampler ";
  if (message.starts_with(kSampler)) message.remove_prefix(kSampler.size());
  return fmt::format("request->{}", message);
}

Request request_of(const talon_request& request, std::span<const TokenId> model_ends) {
  Request asked;
  asked.prompt = copy({request.prompt, request.prompt_count});
  asked.max_new = request.max_new;
  asked.min_new = request.min_new;
  asked.sampler = sampler_of(request);
  asked.seed = request.seed;
  asked.choice = request.choice;
  asked.end_tokens =
      copy(require_array(request.end_tokens, request.end_token_count, "request->end_tokens"));
  if (!require_flag(request.ignore_end, "request->ignore_end"))
    asked.end_tokens.insert(asked.end_tokens.end(), model_ends.begin(), model_ends.end());
  asked.stop_texts = stop_texts_of(request);
  asked.reuse_prefix = require_flag(request.reuse_prefix, "request->reuse_prefix");
  asked.tenant = request.tenant;
  asked.priority = request.priority;
  require(request.logprobs >= -1, "request->logprobs", "-1 (none) or more", request.logprobs);
  asked.logprobs = request.logprobs;
  asked.deadline = deadline_of(request.deadline_ms);
  const auto expected =
      require_array(request.expected, request.expected_count, "request->expected");
  if (!expected.empty())
    asked.expected = std::make_shared<const std::vector<TokenId>>(copy(expected));
  return asked;
}

}  // namespace talon
