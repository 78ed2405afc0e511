#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/round/round_report.h"

namespace talon {

struct TreeTextOptions {
  std::function<std::string(TokenId)> bytes_of = {};  // of a token; empty: its id is shown
  bool color = false;  // escape codes of a terminal beside the check marks
  std::vector<std::string> sources =
      {};  // names of a merged drafter's parts; empty: who proposed a node is not shown
};

/// One round for the terminal, ending with a newline: a line of numbers, then the checked tree from
/// its root. A node stands as the drafter's chance of the path down to it, its text in quotes, and
/// a check mark if it was accepted; children of one node likeliest first, and nodes without
/// siblings on one line with their parent.
std::string tree_text(const RoundReport& report, const TreeTextOptions& options);

/// The parts of `a:key=value+b`, by name, for TreeTextOptions::sources; empty for one drafter.
std::vector<std::string> source_names(std::string_view drafter);

/// A token's bytes as one printable word in double quotes: well-formed UTF-8 stays, control
/// characters and quotes are escaped.
std::string quoted_piece(std::string_view bytes);

}  // namespace talon
