#pragma once

#include <span>
#include <vector>

#include "image/animation.h"
#include "model/config/config.h"

namespace talon {

/// How a cell of a picture came.
struct CellOrigin {
  int forward = 0;  // of the target, the prompt's is 0
  int depth = 0;    // in the draft; 0: the target's own
};
/// Of the cells in order. accepted: of each check (SequenceStatistics).
std::vector<CellOrigin> origins_of(const ImagePlan& plan, std::span<const int> accepted);

/// The picture as it grew, one frame for each forward of the target, or for some where there are
/// many: on the right as it was drawn, its cells tinted by how they came (green: drafted, darker
/// the deeper; grey: the target's own), on the left as it is without drafts, a token a forward.
/// Below each, tokens / forwards.
std::vector<AnimationFrame> film_of(const ImagePlan& plan, const Picture& picture,
                                    std::span<const int> accepted);

}  // namespace talon
