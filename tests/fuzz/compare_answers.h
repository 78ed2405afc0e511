#pragma once

#include "engine_situation.h"

namespace talon::fuzz {

/// Whether the rule gives the tokens of plain decoding, whatever is drafted.
bool is_exact(const Verifier& rule, const SamplerOptions& sampler);

/// Whether the tokens and log-probabilities are those that `expected` begins with.
bool is_beginning(const Request& asked, const FullAnswer& found, const FullAnswer& expected);

/// Whether all of the answer is that. A reason to fail is compared if `says_why`.
bool is_same(const Request& asked, const FullAnswer& found, const FullAnswer& expected,
             bool says_why);

/// What is wrong with an answer that need only be one that the request allows; empty: nothing. How
/// it ended is judged for the reasons that the request itself gives.
std::string what_is_wrong(const Request& asked, const FullAnswer& found, const Askable& of);

}  // namespace talon::fuzz
