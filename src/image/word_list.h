#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace talon {

/// A list of texts in a file. Throws Error that begins with `doing` for anything else, naming the
/// entry that is no text.
std::vector<std::string> read_texts(const Json& list, std::string_view doing);

/// Letters from A to Z become small ones.
std::string lowered(std::string_view text);

/// The five texts that are most like `word`, the most alike first (Levenshtein).
std::vector<std::string> most_like(std::string_view word, std::vector<std::string> known);

}  // namespace talon
