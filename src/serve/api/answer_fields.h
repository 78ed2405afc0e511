#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/api/fields.h"
#include "serve/api/limits.h"
#include "serve/host/method_choice.h"
#include "serve/tools/answer_style.h"

namespace talon {

/// What requests for completions and for chats have in common.
struct AnswerFields {
  int choices = 1;
  std::optional<int> max_new;  // none: as far as the context goes
  bool has_no_limit = false;   // it is said that there is no max_new
  int min_new = 0;
  SamplerOptions sampler;
  std::uint64_t seed = 0;
  std::vector<std::string> stop_texts;
  std::vector<TokenId> stop_tokens;
  bool ignore_end = false;
  bool streams = false;
  bool includes_usage = false;  // a last piece of a stream with it
  bool returns_tokens = false;
  bool returns_metrics = false;
  bool traces = false;  // shows how it is drafted
  int logprobs = -1;    // as Request::logprobs
  std::uint64_t tenant = 0;
  int priority = 0;
  MethodChoice method;
  std::shared_ptr<const ConstraintSource> constraint;    // null: none
  std::shared_ptr<const std::vector<TokenId>> expected;  // as Request::expected
  AnswerStyle style;
  std::optional<int> deadline_ms;

  /// Whether answers tell of single tokens, also of those that bring no text yet.
  bool shows_tokens() const { return returns_tokens || logprobs >= 0 || traces; }
};

/// Of OpenAI, and llama.cpp's.
inline constexpr std::array<std::string_view, 3> kMaxTokensNames = {
    "max_tokens", "max_completion_tokens", "n_predict"};
/// What an interface calls the fields that others call otherwise.
struct FieldNames {
  std::span<const std::string_view> max_tokens = kMaxTokensNames;  // the last that is there counts
  std::string_view stop = "stop";
};

/// Throws ApiError. `logprobs` is left to the caller: paths differ in it.
AnswerFields read_answer_fields(const Fields& fields, const RequestLimits& limits, int vocabulary,
                                const FieldNames& names = {});

/// Refuses what vLLM, SGLang and llama.cpp have and would change the answer, but for values that
/// change nothing. Throws ApiError.
void refuse_foreign_fields(const Fields& fields);
/// Refuses an order of llama.cpp's `samplers` in which those that are on would do something else
/// than in that of SamplerOptions, or which lacks one of them. llama.cpp's own, which its clients
/// send with every request, stands for none. Throws ApiError.
void check_sampler_order(const Fields& fields, const SamplerOptions& sampler);

/// A list of token ids. Throws ApiError.
std::vector<TokenId> read_tokens(const std::string& path, const Json& list, int vocabulary);

}  // namespace talon
