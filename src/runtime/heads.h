#pragma once

#include <string>

namespace talon {

/// `drafters` (`eagle3+ngram:nodes=8`) with head=FOLDER put into those that need a head and name
/// none, where one for `model`, a name of the catalogue, ships with the program: models/MODEL-KIND
/// below the current folder, beside the program's folder, or in share/talon next to it. What is not
/// found stays as it is.
std::string with_shipped_heads(const std::string& drafters, const std::string& model);

}  // namespace talon
