#pragma once

#include <filesystem>

#include "core/stop.h"
#include "runtime/catalogue.h"

namespace talon {

/// Whether all files of the entry lie in `folder`, of the right size and checksum. Throws Error
/// once `stop` is requested.
bool is_installed(const CatalogueEntry& entry, const std::filesystem::path& folder,
                  const StopFlag& stop);

/// Fetches the entry's packages and leaves its files below `folder`, each appearing only whole and
/// with the right checksum. Throws Error, leaving nothing behind, when there is no room, a client
/// fails, `stop` is requested, or bytes are not the expected ones.
void install(const CatalogueEntry& entry, const std::filesystem::path& folder,
             const StopFlag& stop);

}  // namespace talon
