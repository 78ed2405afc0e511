#pragma once

#include "backend/arguments.h"

namespace talon {

/// Throws Bug unless the shapes of `args` fit each other.
void check_route(const RouteArgs& args);

/// Row `row` of route(), in double, where the host's memory is the backend's own.
void route_row(const RouteArgs& args, int row);

/// Throws Bug unless the shapes of `args` fit each other and every id names an expert.
void check_experts(const ExpertArgs& args);

/// Operations::count_first_uses, where the host's memory is the backend's own.
void add_first_uses(const Indices& ids, int experts, const Indices& counts);

}  // namespace talon
