#pragma once

#include <cstddef>

#include "backend/memory.h"

namespace talon {

/// As many pages of the kind of `page` as a drafter's own cache may have: for `positions` of all
/// sequences together, and drafts in flight. positions 0: nobody said how many, so `context` is
/// taken, within a gibibyte. Throws Error where what was asked for is not to be had.
KvShape draft_cache_shape(const KvShape& page, std::size_t positions, int context);

}  // namespace talon
