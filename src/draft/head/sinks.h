#pragma once

#include "backend/arguments.h"

namespace talon {

/// Changes the list of every row that sees more than window + sinks keys so that the last
/// window + sinks of it are the first `sinks` and the newest `window` (StreamingLLM,
/// arXiv:2309.17453). Keys keep the places at which they were turned.
/// REQUIRES: sinks > 0, window > 0.
void list_sinks(AttentionLayout& layout, int sinks, int window);

}  // namespace talon
