#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/page/page.h"
#include "io/json.h"

namespace talon {

/// Writes NAME.html (the page), NAME.md (`markdown`) and NAME.jsonl (the lines) into `folder`,
/// which is made if it is not there. Throws Error naming the file and the reason.
void write_report(const std::filesystem::path& folder, const std::string& name, const Page& page,
                  const std::string& markdown, const std::vector<Json>& lines);

}  // namespace talon
