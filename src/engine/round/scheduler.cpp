#include "engine/round/scheduler.h"

#include <algorithm>

namespace talon {

std::vector<RowGrant> share_rows(std::span<const RowDemand> demands, const RowLimits& limits,
                                 std::size_t first) {
  const std::size_t count = demands.size();
  std::vector<RowGrant> grants(count);
  int rows_left = limits.max_rows;
  int prompt_rows_left = limits.prompt_rows;
  int trees = 0;
  for (std::size_t i = 0; i < count && rows_left > 0; ++i) {
    const std::size_t sequence = (first + i) % count;
    if (demands[sequence].prompt_rows > 0) continue;
    grants[sequence].rows = 1;
    --rows_left;
    ++trees;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t sequence = (first + i) % count;
    const int prompt_rows = demands[sequence].prompt_rows;
    if (prompt_rows == 0) continue;
    grants[sequence].rows = std::min({prompt_rows, limits.chunk, rows_left, prompt_rows_left});
    rows_left -= grants[sequence].rows;
    prompt_rows_left -= grants[sequence].rows;
  }
  const bool runs_prompts = prompt_rows_left < limits.prompt_rows;
  if (runs_prompts) rows_left = std::min(rows_left, limits.nodes_beside_prompts);
  for (RowGrant& grant : grants) {
    const bool draws_tree =
        grant.rows > 0 &&
        demands[static_cast<std::size_t>(&grant - grants.data())].prompt_rows == 0;
    if (draws_tree) grant.draft_rows = std::min(limits.max_nodes, rows_left / trees);
  }
  return grants;
}

}  // namespace talon
