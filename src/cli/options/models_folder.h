#pragma once

#include <filesystem>
#include <string>

#include "runtime/catalogue.h"

namespace talon {

/// Where pulled models lie: `given` (--models), else $TALON_MODELS, else ./downloads if it is
/// there, else $XDG_DATA_HOME/talon, else ~/.local/share/talon.
std::filesystem::path models_folder(const std::string& given);

/// Where a file of a catalogue entry lies in `folder`.
std::filesystem::path catalogue_path(const std::filesystem::path& folder,
                                     const CatalogueEntry& entry, const CatalogueFile& file);

/// The file or folder that MODEL means: a catalogue name or a path. Throws Error for one that is
/// not there, with what to do.
std::filesystem::path resolve_model(const std::string& model, const std::filesystem::path& folder);

}  // namespace talon
