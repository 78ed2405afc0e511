#pragma once

#include <memory>

#include "draft/draft_job.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/growth/tree_growth.h"

namespace talon {

// The trees that such options ask for, whatever network grows them.

/// At most, of a tree.
int rows_per_level(const EagleOptions& options);
int children_per_row(const EagleOptions& options);
/// Whether the children of the job's tree are drawn.
bool draws_tree(const EagleOptions& options, const DraftJob& job);
/// Of the job's tree, with at most so many levels.
std::unique_ptr<TreeGrowth> grow_tree(const EagleOptions& options, const DraftJob& job,
                                      int most_levels);

}  // namespace talon
