#pragma once

#include <filesystem>
#include <string>

#include "cli/pull/hub.h"
#include "io/json.h"

namespace talon {

/// Pairs what was pulled: a model with the heads that came with it, a head with `target` (a model;
/// empty: the one that it was trained for, if it says so). Returns of a model {"drafter": what
/// `auto` stands for}, of a head {"kind", "paired_with"}; {"problem"} for files that are not
/// understood. Throws Error for a head that does not fit `target`.
Json pair_pulled(const PulledFiles& pulled, const std::string& target,
                 const std::filesystem::path& models_folder);
/// What pair_pulled() found, as text for people.
std::string pairing_text(const Json& pairing);

}  // namespace talon
