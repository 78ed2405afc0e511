#pragma once

#include <memory>

#include "tree/policy_registry.h"

namespace talon {

std::unique_ptr<TreePolicy> make_fixed_policy(OptionText& options, const PolicyContext& context);
std::unique_ptr<TreePolicy> make_throughput_policy(OptionText& options,
                                                   const PolicyContext& context);

}  // namespace talon
