#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace talon {

// What the environment says of where things lie.

/// Where pulled models lie: `given` (--models), else $TALON_MODELS, else ./downloads if it is
/// there, else $XDG_DATA_HOME/talon, else ~/.local/share/talon; empty if $HOME is not known either.
std::string models_folder(const std::string& given);

/// Where measured costs are kept: $XDG_CACHE_HOME/talon/costs, else ~/.cache/talon/costs; empty if
/// neither is known.
std::filesystem::path costs_folder();

/// Where heads and models ship with the program: models below the current folder, beside the
/// program's folder, and in share/talon next to it.
std::vector<std::filesystem::path> shipped_places();

}  // namespace talon
