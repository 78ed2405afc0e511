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
  for (const StateRun& run : layout.runs) {
    expects(run.first >= 0 && run.count >= 1 &&
                static_cast<std::size_t>(run.first + run.count) <= layout.state_rows.size(),
            "a run of state rows");
    for (int i = 0; i < run.count; ++i) {
      const StateRow& row = layout.state_rows[static_cast<std::size_t>(run.first + i)];
      expects(row.row >= 0 && row.parent >= -1 && row.parent < i, "parents precede children");
      expects((run.to < 0 && row.save < 0) || row.parent == i - 1,
              "states are written behind a line of rows");
    }
  }
}

}  // namespace talon
