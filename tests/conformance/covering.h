#pragma once

#include <cstddef>
#include <vector>

namespace talon::test {

/// Rows of one index below sizes[axis] per axis, in ascending order, so that any `strength` axes
/// take every combination of their values together in some row. With strength 2, an error that
/// needs a certain value of one axis and of another is met; with as many as there are axes, the
/// rows are the full product. Equal input gives equal rows.
/// REQUIRES: 1 <= strength <= sizes.size(), every size at least 1.
std::vector<std::vector<std::size_t>> covering_rows(const std::vector<std::size_t>& sizes,
                                                    std::size_t strength);

}  // namespace talon::test
