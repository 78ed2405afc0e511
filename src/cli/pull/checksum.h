#pragma once

#include <filesystem>
#include <string>

#include "core/stop.h"

namespace talon {

/// The SHA-256 of a file, with a meter. Throws Error if it cannot be read, or once `stop` is
/// requested.
std::string checksum_of(const std::filesystem::path& file, const StopFlag* stop);

}  // namespace talon
