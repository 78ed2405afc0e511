#pragma once

#include <memory>

#include "tree/policy_registry.h"

namespace talon {

std::unique_ptr<TreePolicy> make_throughput_policy(OptionText& options,
                                                   const PolicyContext& context);
std::unique_ptr<TreePolicy> make_fixed_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_static_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_eagle2_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_ddd_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_radar_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_ada_eagle_policy(OptionText& options,
                                                  const PolicyContext& context);
std::unique_ptr<TreePolicy> make_adjacency_policy(OptionText& options,
                                                  const PolicyContext& context);

}  // namespace talon
