#pragma once

#include <string>
#include <string_view>

#include "draft/growth/static_tree.h"

namespace talon {

/// The fixed trees of the official codes of EAGLE-1 and LANTERN (arXiv:2410.03355), by their names
/// there: "a, b or c".
std::string static_tree_names();

bool is_tree_name(std::string_view text);

/// One of them. REQUIRES: it exists.
StaticTree named_tree(std::string_view name);

/// What option `tree` says: such a name, else a file (read_static_tree).
StaticTree tree_of(const std::string& name_or_file);

}  // namespace talon
