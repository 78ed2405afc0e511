#pragma once

#include <span>

#include "engine/progress.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon {

/// Of pictures that were drawn in one way: what all reports make their numbers of. Codes are those
/// of CodeCounts.
struct PictureSums {
  int pictures = 0, codes = 0, rounds = 0;
  int tokens = 0;               // codes, and what must stand between them
  int accepted = 0;             // drafts
  double relaxed = 0;           // of these the exact rule would have rejected, in expectation
  double distortion = 0;        // metered
  double worst_distortion = 0;  // the largest of a picture, a code

  void add(const ImagePlan& plan, std::span<const TokenId> answer, const SequenceStatistics& s);
  /// Codes of a check; the prompt's forward draws the first of a picture.
  double tau() const;
  /// Codes of a forward of the model, the prompt's included.
  double steps_compression() const;
};
/// Of one.
PictureSums sums_of(const ImagePlan& plan, std::span<const TokenId> answer,
                    const SequenceStatistics& s);

/// "codes", "rounds", "tau", "steps_compression", "distortion", which is that of a code, and
/// "relaxed", the share of the accepted drafts.
Json numbers_of(const PictureSums& sums);
/// Of several pictures also "distortion_sum", and "distortion_worst": that of a code of the
/// picture that has the most.
Json summary_of(const PictureSums& sums);

}  // namespace talon
