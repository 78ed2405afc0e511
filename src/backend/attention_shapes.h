#pragma once

#include "backend/arguments.h"

namespace talon {

/// Throws Bug unless the shapes of `args` fit each other and the cache.
void check_attention(const AttentionArgs& args);

}  // namespace talon
