#pragma once

#include <memory>

#include "serve/api/answer_format.h"

namespace talon {

/// Answers of /v1/chat/completions.
std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head);
/// Answers of /v1/completions.
std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head);

}  // namespace talon
