#include "draft/head/sinks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"

namespace talon {

/// Sinks are listed behind the keys in pages, so the window has only what lies in pages to cut.
void list_sinks(AttentionLayout& layout, int sinks, int window) {
  expects(sinks > 0 && window > 0, "sinks stand beside a window");
  const std::vector<Slot> listed = std::exchange(layout.extra, {});
  for (AttentionRow& row : layout.rows) {
    const int own_keys = std::max(row.visible - row.contiguous, 0);
    auto own = std::span(listed).subspan(static_cast<std::size_t>(row.extra_begin),
                                         static_cast<std::size_t>(own_keys));
    row.extra_begin = static_cast<std::int32_t>(layout.extra.size());
    if (row.visible > window + sinks) {
      const auto pages = layout.pages[static_cast<std::size_t>(row.sequence)];
      for (int key = 0; key < sinks; ++key) {
        layout.extra.push_back(key < row.contiguous
                                   ? pages[static_cast<std::size_t>(key / kPageRows)] * kPageRows +
                                         key % kPageRows
                                   : own[static_cast<std::size_t>(key - row.contiguous)]);
      }
      own = own.last(std::min(own.size(), static_cast<std::size_t>(window)));
      row.contiguous = std::min(row.contiguous, row.visible);
      row.visible = row.contiguous + sinks + static_cast<int>(own.size());
    }
    layout.extra.insert(layout.extra.end(), own.begin(), own.end());
  }
}

}  // namespace talon
