#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "serve/api/answer_fields.h"

namespace talon {
namespace {

/// The values of a field that change nothing, beside null.
enum class Harmless { none, off, on, empty, zero, negative };

struct ForeignField {
  std::string_view name;
  Harmless harmless = Harmless::none;
};

constexpr std::array kForeignFields = {
    // vLLM
    ForeignField{"allowed_token_ids", Harmless::none},
    ForeignField{"bad_words", Harmless::empty},
    ForeignField{"include_reasoning", Harmless::on},
    ForeignField{"include_stop_str_in_output", Harmless::off},
    ForeignField{"logits_processors", Harmless::empty},
    ForeignField{"logprob_token_ids", Harmless::none},
    ForeignField{"prompt_embeds", Harmless::empty},
    ForeignField{"prompt_logprobs", Harmless::none},
    ForeignField{"repetition_detection", Harmless::empty},
    ForeignField{"return_tokens_as_token_ids", Harmless::off},
    ForeignField{"skip_special_tokens", Harmless::on},
    ForeignField{"thinking_token_budget", Harmless::negative},
    ForeignField{"truncate_prompt_tokens", Harmless::none},
    ForeignField{"use_beam_search", Harmless::off},
    // SGLang
    ForeignField{"custom_logit_processor", Harmless::empty},
    ForeignField{"lora_path", Harmless::empty},
    ForeignField{"no_stop_trim", Harmless::off},
    ForeignField{"separate_reasoning", Harmless::on},
    ForeignField{"stop_regex", Harmless::empty},
    // llama.cpp
    ForeignField{"adaptive_target", Harmless::negative},
    ForeignField{"dry_multiplier", Harmless::zero},
    ForeignField{"dynatemp_range", Harmless::zero},
    ForeignField{"lora", Harmless::empty},
    ForeignField{"min_keep", Harmless::zero},
    ForeignField{"mirostat", Harmless::zero},
    ForeignField{"n_indent", Harmless::zero},
    ForeignField{"n_probs", Harmless::zero},
    ForeignField{"parse_tool_calls", Harmless::on},
    ForeignField{"reasoning_budget_tokens", Harmless::negative},
    ForeignField{"t_max_predict_ms", Harmless::zero},
    ForeignField{"thinking_budget_tokens", Harmless::negative},
    ForeignField{"top_n_sigma", Harmless::zero},
    ForeignField{"xtc_probability", Harmless::zero},
};

/// What a refusal says is expected.
std::string_view harmless_word(Harmless harmless) {
  switch (harmless) {
    case Harmless::off:
      return "false";
    case Harmless::on:
      return "true";
    case Harmless::zero:
      return "0";
    case Harmless::negative:
      return "-1";
    default:
      return "none";
  }
}

/// Numbers below 0 are off, too: llama.cpp's own -1 are.
bool is_harmless(const Json& value, Harmless harmless) {
  switch (harmless) {
    case Harmless::off:
      return value.is_boolean() && !value.get<bool>();
    case Harmless::on:
      return value.is_boolean() && value.get<bool>();
    case Harmless::empty:
      return value == "" || (value.is_structured() && value.empty());
    case Harmless::zero:
      return value.is_number() && value.get<double>() <= 0;
    case Harmless::negative:
      return value.is_number() && value.get<double>() < 0;
    default:
      return false;
  }
}

/// What llama.cpp calls a sampler: in a list and, in a text of letters, by one.
struct LlamaSampler {
  std::string_view name;
  char letter;
};

/// The last four are off wherever their fields are not refused.
constexpr std::array kLlamaSamplers = {
    LlamaSampler{"penalties", 'e'},  LlamaSampler{"temperature", 't'},
    LlamaSampler{"top_k", 'k'},      LlamaSampler{"top_p", 'p'},
    LlamaSampler{"min_p", 'm'},      LlamaSampler{"typ_p", 'y'},
    LlamaSampler{"dry", 'd'},        LlamaSampler{"xtc", 'x'},
    LlamaSampler{"adaptive_p", 'a'}, LlamaSampler{"top_n_sigma", 's'}};

/// llama.cpp's own order, of those that may be on.
constexpr std::array<std::string_view, 6> kUsualOrder = {"penalties", "top_k", "typ_p",
                                                         "top_p",     "min_p", "temperature"};

/// Whether clients send it that ask for no order of their own, of whatever version.
bool is_usual_order(std::vector<std::string_view> names) {
  const auto is_off = [](std::string_view name) {
    return std::ranges::find(kUsualOrder, name) == kUsualOrder.end();
  };
  std::erase_if(names, is_off);
  return std::ranges::equal(names, kUsualOrder);
}

std::vector<std::string_view> read_sampler_names(const Fields& fields) {
  std::vector<std::string_view> names;
  if (const Json* samplers = fields.find("samplers"); samplers->is_string()) {
    for (const char letter : samplers->get_ref<const std::string&>()) {
      const auto found = std::ranges::find(kLlamaSamplers, letter, &LlamaSampler::letter);
      if (found == kLlamaSamplers.end()) fields.refuse("samplers", "letters of etkpmydxas");
      names.push_back(found->name);
    }
    return names;
  }
  const Json& list = *fields.array("samplers", 64);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto is_it = [&](const LlamaSampler& sampler) {
      return list[i].is_string() && list[i].get_ref<const std::string&>() == sampler.name;
    };
    const auto found = std::ranges::find_if(kLlamaSamplers, is_it);
    if (found == kLlamaSamplers.end()) {
      std::vector<std::string_view> known;
      for (const LlamaSampler& sampler : kLlamaSamplers) known.push_back(sampler.name);
      refuse_field(fields.path_of(fmt::format("samplers[{}]", i)),
                   fmt::format("one of {}", fmt::join(known, ", ")), list[i]);
    }
    names.push_back(found->name);
  }
  return names;
}

/// Those that change an answer, in the order in which they do (SamplerOptions).
std::vector<std::string_view> samplers_on(const SamplerOptions& sampler) {
  const bool penalizes = sampler.repetition_penalty != 1 || sampler.presence_penalty != 0 ||
                         sampler.frequency_penalty != 0;
  std::vector<std::string_view> names;
  if (penalizes) names.push_back("penalties");
  if (sampler.temperature != 1) names.push_back("temperature");
  if (sampler.top_k > 0) names.push_back("top_k");
  if (sampler.top_p < 1) names.push_back("top_p");
  if (sampler.min_p > 0) names.push_back("min_p");
  if (sampler.typical_p < 1) names.push_back("typ_p");
  return names;
}

/// Whether two do the same in either order: top-k goes by rank, which no temperature changes, and
/// min-p by shares of the first, which top-k leaves. At temperature 0 the first alone is left.
bool may_swap(std::string_view a, std::string_view b, bool is_greedy) {
  const auto either = [&](std::string_view name) { return a == name || b == name; };
  if (is_greedy) return !either("penalties") && !either("typ_p");
  return either("top_k") && (either("temperature") || either("min_p"));
}

}  // namespace

void check_sampler_order(const Fields& fields, const SamplerOptions& sampler) {
  if (!fields.find("samplers")) return;
  const std::vector<std::string_view> names = read_sampler_names(fields);
  if (is_usual_order(names)) return;
  const std::vector<std::string_view> on = samplers_on(sampler);
  std::vector<std::size_t> asked;  // places in `on`
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(on, name);
    if (found != on.end()) asked.push_back(static_cast<std::size_t>(found - on.begin()));
  }
  const bool is_greedy = sampler.temperature == 0;
  bool is_same = asked.size() == on.size();
  for (std::size_t i = 0; is_same && i < asked.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      is_same &= asked[j] < asked[i] ||
                 (asked[j] > asked[i] && may_swap(on[asked[i]], on[asked[j]], is_greedy));
    }
  }
  if (!is_same) fields.refuse("samplers", fmt::format("{} in this order", fmt::join(on, ", ")));
}

void refuse_foreign_fields(const Fields& fields) {
  for (const auto& [name, harmless] : kForeignFields) {
    const Json* value = fields.find(name);
    if (value && !is_harmless(*value, harmless)) fields.refuse(name, harmless_word(harmless));
  }
}

}  // namespace talon
