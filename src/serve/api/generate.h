#pragma once

#include <chrono>
#include <memory>

#include "serve/api/answer_format.h"
#include "serve/api/limits.h"
#include "serve/http/exchange.h"
#include "serve/tools/tool_fields.h"
#include "text/prompt.h"

namespace talon {

/// What a path that answers with a model's text is given.
struct GenerateInput {
  ServedModel* model = nullptr;
  const Json* body = nullptr;
  const std::string* text = nullptr;  // of the body
  const RequestLimits* limits = nullptr;
  bool returns_metrics = false;  // of all requests
  std::shared_ptr<Exchange> exchange;
  WorkQueue* workers = nullptr;  // for what takes long
  std::chrono::steady_clock::time_point came = std::chrono::steady_clock::now();  // the request
};

/// POST /v1/chat/completions and /v1/completions: read, render, tokenize and hand to the engine.
/// Any thread. Throw ApiError.
void serve_chat(const GenerateInput& input);
void serve_completion(const GenerateInput& input);

/// What all paths read; throws ApiError.
AnswerFields read_common(const GenerateInput& input, const Fields& fields,
                         const FieldNames& names = {});
/// Hands the choices of all prompts of `head` to the engine.
void start_answer(const GenerateInput& input, AnswerHead head,
                  std::unique_ptr<AnswerFormat> (*make_format)(AnswerHead));

/// What a request for a chat asks of its answer beside text.
struct ChatAsk {
  std::string field = "messages";     // that holds them
  std::vector<ChatMessage> messages;  // at least one
  ChatRenderOptions options;
  ToolUse tools;
  std::optional<AskedGrammar> grammar;
};
/// Of OpenAI's chat completions. text: of the body. Throws ApiError.
ChatAsk read_chat(const Json& body, const std::string& text, const RequestLimits& limits);
/// The prompt of a chat: tools are told to the template, or in words to one that knows none. It may
/// be too long to be answered, but not longer than most_tokens() can be.
ChatPrompt chat_prompt(const ServedModel& model, ChatAsk ask, const RequestLimits& limits);
/// Renders, and sets the style of `head`, its constraint and its prompt.
void ask_chat(const GenerateInput& input, ChatAsk ask, AnswerHead& head);
/// Compiles what an answer must look like. Throws ApiError naming the field.
std::shared_ptr<const ConstraintSource> compile_grammar(const ServedModel& model,
                                                        const AskedGrammar& asked);
/// Throws ApiError 400 for more answers than the queue ever has room for.
void check_answer_count(const AnswerHead& head);
/// Tokens that no prompt has more of. A text that is longer than they can be is not worked on.
int most_tokens(const ServedModel& model, const RequestLimits& limits);
/// Throws ApiError 400 unless the prompt leaves room for an answer.
void check_prompt_length(const std::string& param, std::size_t tokens, const ServedModel& model,
                         const RequestLimits& limits);

}  // namespace talon
