#pragma once

#include "serve/api/generate.h"

namespace talon {

/// POST /v1/messages, as Anthropic's interface has it. Throws ApiError.
void serve_messages(const GenerateInput& input);
/// POST /v1/messages/count_tokens.
Json count_message_tokens(const ServedModel& model, const Json& body, const std::string& text,
                          const RequestLimits& limits);

/// {"type": "error", "error": {type, message}}.
HttpResponse anthropic_error(const ApiError& error);

}  // namespace talon
