#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/report.h"

namespace talon {

/// Makes `folder`, so that one that cannot be made is known before anything is measured; does
/// nothing for an empty path. Throws Error.
void make_report_folder(const std::filesystem::path& folder);

/// Writes NAME.html (the report), NAME.md (`markdown`) and NAME.jsonl (`lines`) into `folder`,
/// which is made if it is not there. Throws Error naming the file and the reason.
void write_report(const std::filesystem::path& folder, const std::string& name,
                  const Report& report, const std::string& markdown,
                  const std::vector<Json>& lines);

}  // namespace talon
