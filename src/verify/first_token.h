#pragma once

#include <memory>

#include "verify/verifier.h"

namespace talon {

/// The first token of what `rule` gives, so that every position of a text has a round of its own:
/// for traces that are replayed under other policies.
std::unique_ptr<Verifier> first_token_of(std::unique_ptr<Verifier> rule);

}  // namespace talon
