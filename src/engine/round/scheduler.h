#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace talon {

struct RowLimits {
  int max_rows = 0;              // of one forward
  int chunk = 0;                 // prompt rows of one sequence
  int max_nodes = 0;             // draft nodes of one tree
  int prompt_rows = 0;           // of all sequences
  int nodes_beside_prompts = 0;  // of all trees of a forward that runs prompts
};

/// Rows of a sequence in the next forward.
struct RowGrant {
  /// Prompt rows, or 1 for the root of a tree. 0: the sequence waits for the next forward.
  int rows = 0;
  int draft_rows = 0;  // most draft nodes beside the root
};

/// Shares the rows of one forward: first one for each sequence that decodes, then prompt chunks,
/// and what is left in equal parts for draft trees (what they use of it may be taken from the
/// chunks: StepBudget). Sequences are served from index `first` on, around; a caller that moves it
/// lets none wait for ever. rows_behind: of each sequence the rows of its prompt, or of a text that
/// is run again, that are not computed yet; 0: it decodes.
std::vector<RowGrant> share_rows(std::span<const int> rows_behind, const RowLimits& limits,
                                 std::size_t first);

}  // namespace talon
