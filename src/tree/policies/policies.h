#pragma once

#include "tree/policy_registry.h"

namespace talon {

PolicyEntry throughput_policy();
PolicyEntry fixed_policy();
PolicyEntry static_policy();
PolicyEntry eagle2_policy();
PolicyEntry ddd_policy();
PolicyEntry ada_eagle_policy();
PolicyEntry radar_policy();
PolicyEntry adjacency_policy();

}  // namespace talon
