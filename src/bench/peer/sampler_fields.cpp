#include "bench/peer/sampler_fields.h"

#include "core/error.h"

namespace talon {

Json llama_sampler_fields(const SamplerOptions& sampler, int tokens) {
  // The most probable token is the same with 1, which spares it a softmax over the vocabulary.
  const int top_k = sampler.temperature == 0 ? 1 : sampler.top_k;
  Json bias = Json::array();
  for (const auto& [token, value] : sampler.logit_bias) bias.push_back({token, value});
  for (const TokenId token : sampler.banned) bias.push_back({token, false});
  Json fields = {{"temperature", sampler.temperature},
                 {"top_k", top_k},
                 {"top_p", sampler.top_p},
                 {"min_p", sampler.min_p},
                 {"typical_p", sampler.typical_p},
                 {"repeat_penalty", sampler.repetition_penalty},
                 {"repeat_last_n", sampler.penalty_window > 0 ? sampler.penalty_window : tokens},
                 {"presence_penalty", sampler.presence_penalty},
                 {"frequency_penalty", sampler.frequency_penalty},
                 {"logit_bias", std::move(bias)}};
  const bool are_cut = sampler.top_p < 1 || sampler.min_p > 0 || sampler.typical_p < 1;
  if (sampler.temperature > 0 && are_cut) {
    // Its usual order cuts the law before the temperature.
    fields["samplers"] = {"penalties", "temperature", "top_k", "top_p", "min_p", "typ_p"};
  }
  return fields;
}

Json endpoint_sampler_fields(const SamplerOptions& sampler) {
  constexpr double kBan = -100;  // OpenAI: "should result in a ban"
  const SamplerOptions usual;
  if (sampler.penalty_window != 0 && sampler.repetition_penalty != 1) {
    throw UsageError(fmt::format(
        "--repeat-window: expected 0 for an endpoint, which has no field for it, got {}",
        sampler.penalty_window));
  }
  Json fields = {{"temperature", sampler.temperature}, {"top_p", sampler.top_p}};
  const auto add = [&](const char* name, auto value, auto usual_value) {
    if (value != usual_value) fields[name] = value;
  };
  add("top_k", sampler.top_k, usual.top_k);
  add("min_p", sampler.min_p, usual.min_p);
  add("typical_p", sampler.typical_p, usual.typical_p);
  add("repetition_penalty", sampler.repetition_penalty, usual.repetition_penalty);
  add("presence_penalty", sampler.presence_penalty, usual.presence_penalty);
  add("frequency_penalty", sampler.frequency_penalty, usual.frequency_penalty);
  for (const auto& [token, bias] : sampler.logit_bias)
    fields["logit_bias"][std::to_string(token)] = bias;
  for (const TokenId token : sampler.banned) fields["logit_bias"][std::to_string(token)] = kBan;
  return fields;
}

}  // namespace talon
