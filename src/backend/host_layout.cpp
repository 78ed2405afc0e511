#include "backend/host_layout.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

HostLayout::HostLayout(const AttentionLayout& layout) : layout_(layout) {
  rows = static_cast<int>(layout.rows.size());
  for (const AttentionRow& row : layout.rows) {
    expects(row.visible >= 1 && row.position >= 0, "a row sees a key and has a position");
    const auto sequence = static_cast<std::size_t>(row.sequence);
    expects(row.sequence >= 0 && sequence < layout.pages.size(), "a sequence of the layout");
    const std::size_t room = layout.pages[sequence].size() * kPageRows;
    expects(static_cast<std::size_t>(std::min(row.contiguous, row.visible)) <= room,
            "pages for the keys that lie in them");
    const int listed = std::max(row.visible - row.contiguous, 0);
    expects(static_cast<std::size_t>(row.extra_begin + listed) <= layout.extra.size(),
            "a slot for every other key");
    positions = std::max(positions, row.position + 1);
  }
}

}  // namespace talon
