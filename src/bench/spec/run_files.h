#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "draft/registry.h"
#include "io/json.h"

namespace talon {

/// What changes with the contents of a file, or of the files of a folder: hashes, for files beyond
/// 1 GiB size and time of the last change. Null for what is neither. Throws Error for a file that
/// cannot be read.
Json contents_of(const std::filesystem::path& path);

/// What the options in `text`, a method or a policy, name that is there: heads, networks, models.
std::set<std::string> files_named(std::string_view text);

/// The heads that `heads` finds for those drafters of `drafter` that name none.
std::set<std::string> heads_found(std::string_view drafter, const HeadFinder& heads);

}  // namespace talon
