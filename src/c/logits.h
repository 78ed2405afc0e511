#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "talon.h"

namespace talon {

/// talon_model_logits(), for callers that may want it to end. `go_on`, which may be empty, is asked
/// after each forward, on this thread, while it is nobody's turn; if it says no, the call ends as
/// TALON_CANCELLED. It must not throw.
talon_status model_logits(const talon_model* model, const std::int32_t* tokens, std::size_t count,
                          std::size_t first, float* logits, std::size_t capacity,
                          const std::function<bool()>& go_on);

}  // namespace talon
