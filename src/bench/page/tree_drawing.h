#pragma once

#include <string>
#include <vector>

#include "engine/round_report.h"

namespace talon {

/// One checked tree as an <svg> element that needs nothing else: the root at the left, a column per
/// level, the likeliest child of a node on top, lines as strong as the drafter's chance of the
/// path, accepted nodes filled. Each node carries its numbers as a <title>. text: per node; empty:
/// token ids are shown.
std::string tree_svg(const RoundReport& report, const std::vector<std::string>& text);

}  // namespace talon
