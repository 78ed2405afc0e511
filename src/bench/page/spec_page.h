#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/page/page.h"
#include "bench/spec/spec_cell.h"

namespace talon {

/// The report of `talon bench spec`: tables and drawings of everything the cells say. `closing`:
/// the last line of the results, of which it takes model, machine, commit, date and settings.
Page spec_page(std::span<const SpecCell> cells, const std::vector<std::string>& methods,
               const Json& closing);

}  // namespace talon
