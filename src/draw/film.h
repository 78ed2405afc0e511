#pragma once

#include <span>
#include <vector>

#include "draw/growth.h"
#include "image/animation.h"

namespace talon {

/// The picture as it grew, one frame for each forward of the target, or for some where there are
/// many: on the right as it was drawn, its cells tinted by how they came (green: drafted, darker
/// the deeper; grey: the target's own), on the left as it is without drafts, a token a forward.
/// Drafts are the more orange, the larger CellOrigin::relaxed. Below each, tokens / forwards.
/// accepted, relaxed: as of origins_of().
std::vector<AnimationFrame> film_of(const ImagePlan& plan, const Picture& picture,
                                    std::span<const int> accepted,
                                    std::span<const double> relaxed = {});

/// A picture whose cells are tinted so; those without an origin are left as they are.
Picture tinted(const ImagePlan& plan, const Picture& picture, std::span<const CellOrigin> origins);

}  // namespace talon
