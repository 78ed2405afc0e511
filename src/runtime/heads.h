#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "draft/registry.h"

namespace talon {

/// Finds the heads of `model`, a name of the catalogue (or empty: there are none): the folder
/// MODEL-KIND of the first of `places` that has it, or the file head.gguf in it.
HeadFinder heads_in(std::vector<std::filesystem::path> places, std::string model);

/// The drafter that `auto` stands for: the strongest head there is, joined with suffix; suffix
/// where there is none. Every other text stands for itself.
std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads);

}  // namespace talon
