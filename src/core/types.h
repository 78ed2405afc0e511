#pragma once

#include <cstdint>

namespace talon {

using TokenId = std::int32_t;      // index into the target's vocabulary
using NodeId = std::int32_t;       // index of a draft-tree node; 0 is the root, -1 is "no parent"
using SequenceId = std::uint64_t;  // names a running request; never reused within an engine

}  // namespace talon
