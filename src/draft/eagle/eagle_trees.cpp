#include "draft/eagle/eagle_trees.h"

#include <algorithm>

#include "draft/growth/drawn_tree.h"

namespace talon {

int rows_per_level(const EagleOptions& options) {
  return options.fixed ? options.fixed->widest_level() : options.dynamic.width;
}

int children_per_row(const EagleOptions& options) {
  return options.fixed ? options.fixed->children() : options.dynamic.children;
}

bool draws_tree(const EagleOptions& options, const DraftJob& job) {
  return options.draws && !job.races && job.sampler && job.random && job.sampler->temperature > 0;
}

std::unique_ptr<TreeGrowth> grow_tree(const EagleOptions& options, const DraftJob& job,
                                      int most_levels) {
  DynamicTreeShape shape = options.dynamic;
  shape.levels = std::min(shape.levels, most_levels);
  shape.nodes = std::min(shape.nodes, job.plan.nodes - job.tree->draft_nodes());
  if (options.fixed) {
    StaticTree fixed = options.fixed->cut(shape.levels, options.fixed->children());
    const LevelPolicy policy{job.policy, job.plan.ask_after};
    if (!draws_tree(options, job)) return grow_static_tree(std::move(fixed), shape.nodes, policy);
    const auto uniform = [random = job.random, position = job.position](int draw) {
      return random->uniform(static_cast<std::uint64_t>(position), RandomUse::draft,
                             static_cast<std::uint32_t>(draw));
    };
    return grow_drawn_tree(std::move(fixed), shape.nodes, policy, uniform);
  }
  shape.width = std::max(1, std::min(shape.width, job.plan.width));
  return grow_dynamic_tree(shape, {job.policy, job.plan.ask_after}, *job.tree);
}

}  // namespace talon
