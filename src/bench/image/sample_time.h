#pragma once

#include <algorithm>

#include "engine/progress.h"

namespace talon {

/// Of the steps that checked the trees of an answer the time that was neither drafting nor the
/// model's: draws, rules, and showing drafters what became text.
inline double sample_ms_of(const SequenceStatistics& s) {
  return std::max(0.0, s.decode_ms - s.draft_ms - s.check_ms);
}

}  // namespace talon
