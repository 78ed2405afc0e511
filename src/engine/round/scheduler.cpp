#include "engine/round/scheduler.h"

#include <algorithm>

namespace talon {

std::vector<RowGrant> share_rows(std::span<const int> rows_behind, const RowLimits& limits,
                                 std::size_t first) {
  const std::size_t count = rows_behind.size();
  std::vector<RowGrant> grants(count);
  int rows_left = limits.max_rows;
  int prompt_rows_left = limits.prompt_rows;
  int trees = 0;
  for (std::size_t i = 0; i < count && rows_left > 0; ++i) {
    const std::size_t sequence = (first + i) % count;
    if (rows_behind[sequence] > 0) continue;
    grants[sequence].rows = 1;
    --rows_left;
    ++trees;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t sequence = (first + i) % count;
    const int behind = rows_behind[sequence];
    if (behind == 0) continue;
    grants[sequence].rows = std::min({behind, limits.chunk, rows_left, prompt_rows_left});
    rows_left -= grants[sequence].rows;
    prompt_rows_left -= grants[sequence].rows;
  }
  const bool runs_prompts = prompt_rows_left < limits.prompt_rows;
  if (runs_prompts) rows_left = std::min(rows_left, limits.nodes_beside_prompts);
  for (std::size_t i = 0; i < count; ++i) {
    const bool has_tree = grants[i].rows > 0 && rows_behind[i] == 0;
    if (has_tree) grants[i].draft_rows = std::min(limits.max_nodes, rows_left / trees);
  }
  return grants;
}

}  // namespace talon
