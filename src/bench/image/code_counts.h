#pragma once

#include <span>

#include "model/config/config.h"

namespace talon {

// Counts of codes: tokens that must stand where they stand, as those between rows of cells, are
// none, whatever drew them.

/// The code that the answers hold most often; -1: they have none.
TokenId commonest_code(const ImagePlan& plan, std::span<const std::span<const TokenId>> answers);

/// Of one answer.
struct CodeCounts {
  int codes = 0;
  int foreground_rounds = 0;  // whose first code is not the background's
  int foreground_codes = 0;   // of these rounds
};
/// accepted: of each round (SequenceStatistics); the prompt's forward drew the first token.
CodeCounts counts_of(const ImagePlan& plan, std::span<const TokenId> answer,
                     std::span<const int> accepted, TokenId background);

}  // namespace talon
