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
    ForeignField{"include_stop_str_in_output", Harmless::off},
    ForeignField{"logits_processors", Harmless::empty},
    ForeignField{"logprob_token_ids", Harmless::none},
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

}  // namespace

void refuse_foreign_fields(const Fields& fields) {
  for (const auto& [name, harmless] : kForeignFields) {
    const Json* value = fields.find(name);
    if (value && !is_harmless(*value, harmless)) fields.refuse(name, harmless_word(harmless));
  }
}

}  // namespace talon
