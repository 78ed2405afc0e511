#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/catalogue.h"

namespace talon {

/// Fetches the package's archive into `folder` (empty, and its own) with the ordinary client of its
/// ecosystem, as set up on this machine, and returns the archive's path. What the client says goes
/// to standard error. Throws Error when the client is missing, fails, or leaves anything but one
/// archive.
std::filesystem::path fetch_package(const PackageSource& package,
                                    const std::filesystem::path& folder);

/// Runs a program, found on the path, with exactly these arguments (no shell) in `folder`; its
/// output goes to standard error. Returns its exit code, 128 + n when signal n ended it, -1 if
/// there is no such program. Throws Error if it cannot be started.
int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

}  // namespace talon
