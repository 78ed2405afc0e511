#pragma once

#include <cstddef>

namespace talon {

/// What one request may ask. Each is a flag of `talon serve`.
struct RequestLimits {
  int messages = 1024;
  int prompt_tokens = 0;  // 0: what context and cache hold
  int choices = 16;       // n
  int stop_texts = 16;
  int logit_bias = 1024;  // entries
  int top_logprobs = 20;
  std::size_t grammar_bytes = 256 << 10;  // of a schema or grammar, and of all schemas of tools
  std::size_t unread_bytes = 1 << 20;     // of a stream that its client does not take; more ends it
};

}  // namespace talon
