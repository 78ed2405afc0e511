#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/reference/reference_memory.h"

namespace talon::reference {

/// Row `row` of args: norms and rotates its q and k in place and writes k and v to the cache.
void store_row(const AttentionArgs& args, int row);

/// Row `row` of args, all heads, after every row has been stored: out = softmax(scale * q K^T) V
/// over its visible keys.
void attend_row(const AttentionArgs& args, int row);

}  // namespace talon::reference
