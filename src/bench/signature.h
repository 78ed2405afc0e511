#pragma once

#include <cstdint>
#include <string>

#include "runtime/answerer.h"

namespace talon {

/// One number for what the engine does: a hash over the tokens and accepted lengths of fixed
/// prompts, drafted by `none` and `ngram` under a policy that looks at no clock, at temperatures 0
/// and 0.8. Equal on every machine when `model` lies on the reference backend. Throws Error if two
/// drafters give different tokens.
std::uint32_t engine_signature(const Model& model, KvCache& cache, const Tokenizer& tokenizer);

/// Eight hexadecimal digits.
std::string signature_text(std::uint32_t signature);

}  // namespace talon
