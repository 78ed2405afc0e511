#pragma once

#include <memory>

#include "serve/api/answer_format.h"
#include "serve/api/limits.h"
#include "serve/http/exchange.h"

namespace talon {

/// What a path that answers with a model's text is given.
struct GenerateInput {
  ServedModel* model = nullptr;
  const Json* body = nullptr;
  const RequestLimits* limits = nullptr;
  bool returns_metrics = false;  // of all requests
  std::shared_ptr<Exchange> exchange;
};

/// POST /v1/chat/completions and /v1/completions: read, render, tokenize and hand to the engine.
/// Any thread. Throw ApiError.
void serve_chat(const GenerateInput& input);
void serve_completion(const GenerateInput& input);

/// What all paths read; throws ApiError.
AnswerFields read_common(const GenerateInput& input, const Fields& fields,
                         const FieldNames& names = {});
/// Throws ApiError for tools and structured output.
void refuse_constraints(const Fields& fields);

/// Hands the choices of all prompts of `head` to the engine.
void start_answer(const GenerateInput& input, AnswerHead head,
                  std::unique_ptr<AnswerFormat> (*make_format)(AnswerHead));

/// The tokens of a chat. param: the field that is too long if it is.
std::vector<TokenId> chat_tokens(const ServedModel& model, std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options, const RequestLimits& limits);
/// Throws ApiError 400 unless the prompt leaves room for an answer.
void check_prompt_length(const std::string& param, std::size_t tokens, const ServedModel& model,
                         const RequestLimits& limits);

}  // namespace talon
