#include "model/row_layout.h"

#include "core/error.h"

namespace talon {
namespace {

/// The row of the rotary table for a position.
int turn_of(const SequenceRows& part, int position) {
  if (part.picture_prompt < 0) return position;
  return position < part.picture_prompt ? 0 : 1 + position - part.picture_prompt;
}

/// Row `index` of `part`, whose rows begin at layout.rows[first]. Its position is the number of
/// keys that it sees less one. A row that continues rows 0, 1, 2, ... lies where plain decoding
/// would put it, so it needs no list. Any other row sees what its parent sees, then itself.
void lay_out_row(const SequenceRows& part, std::size_t first, int index, KvLayers of,
                 AttentionLayout& layout) {
  const int committed = part.sequence->length();
  const NodeId parent =
      part.parents.empty() ? index - 1 : part.parents[static_cast<std::size_t>(index)];
  expects(parent >= -1 && parent < index, "parents precede children");

  AttentionRow row;
  row.sequence = static_cast<std::int32_t>(layout.pages.size()) - 1;
  row.slot = part.sequence->slot(index, of);
  row.extra_begin = static_cast<std::int32_t>(layout.extra.size());
  AttentionRow above{.visible = committed, .contiguous = committed};
  if (parent >= 0) above = layout.rows[first + static_cast<std::size_t>(parent)];
  row.position = turn_of(part, above.visible);
  row.visible = above.visible + 1;
  const bool parent_is_in_line = above.contiguous == above.visible;
  if (parent_is_in_line && parent == index - 1) {
    row.contiguous = row.visible;
  } else {
    row.contiguous = above.contiguous;
    for (int i = 0; i < above.visible - above.contiguous; ++i) {
      layout.extra.push_back(layout.extra[static_cast<std::size_t>(above.extra_begin + i)]);
    }
    layout.extra.push_back(row.slot);
  }
  layout.rows.push_back(row);
}

}  // namespace

void lay_out_states(std::span<const SequenceRows> batch, AttentionLayout& layout,
                    std::vector<std::int32_t>& flight) {
  layout.runs.clear();
  layout.state_rows.clear();
  flight.clear();
  int first = 0;
  for (const SequenceRows& part : batch) {
    expects(!part.kept || part.parents.empty(), "rows that are kept follow each other");
    const auto count = static_cast<int>(part.tokens.size());
    part.sequence->lay_out_states(first, count, part.parents, part.kept,
                                  static_cast<int>(flight.size()), layout);
    for (int i = 0; !part.kept && i < count; ++i) flight.push_back(first + i);
    first += count;
  }
}

void lay_out_rows(std::span<const SequenceRows> batch, AttentionLayout& layout, KvLayers of) {
  layout.rows.clear();
  layout.extra.clear();
  layout.pages.clear();
  for (const SequenceRows& part : batch) {
    expects(part.parents.empty() || part.parents.size() == part.tokens.size(),
            "every row has a parent");
    layout.pages.push_back(part.sequence->pages(of));
    const std::size_t first = layout.rows.size();
    for (int index = 0; index < static_cast<int>(part.tokens.size()); ++index) {
      lay_out_row(part, first, index, of, layout);
    }
  }
}

}  // namespace talon
