#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/types.h"
#include "sample/logit_changes.h"

namespace talon {

struct DraftJob;

/// How a drafter with logits z ranks tokens whose draw will race with known noise G at temperature
/// T (docs/methods.md 3.5): by beta z + T G. Their chances are the softmax of gamma times that.
struct Coupling {
  bool on = true;
  double beta = 1.25;
  double gamma = 0.9;
};

/// Cuts of a request that leave so few tokens to a draw that only these shall race in drafts.
/// Others stay out of it: heads are right as often without them.
struct StrictCut {
  int top_k = 0;     // 0: none
  double top_p = 1;  // 1: none
  double min_p = 0;  // 0: none

  bool any() const { return top_k > 0 || top_p < 1 || min_p > 0; }
};

/// A place where the next token will be drawn, as far as drafts may know the draw. What the request
/// bans, favours and penalizes is known of all places, foreseen or not.
struct DraftPlace {
  const PositionRandom* random = nullptr;
  std::uint64_t position = 0;
  double temperature = 0;  // 0: the draw is not foreseen, and drafts are ranked by likelihood
  StrictCut cut = {};
  const LogitChanges* changes = nullptr;  // null: none. Borrowed
  std::uint64_t early_end = 0;            // answers are short before it (LogitChanges)
  /// Of the text, the same wherever the place stands below it; null: none. Borrowed.
  const TextPenalties* penalties = nullptr;

  bool races() const { return temperature > 0; }
  bool is_early() const { return position < early_end; }
  /// Whether the request bans the token there, or as good as that by its bias.
  bool bans(TokenId token) const;
  /// So many levels further down.
  DraftPlace after(int levels) const {
    DraftPlace place = *this;
    place.position += static_cast<std::uint64_t>(levels);
    return place;
  }
};

/// Where the children of the job's root stand.
DraftPlace first_place(const DraftJob& job, const Coupling& coupling);

/// What known noise makes of a chance that was estimated by counting: it is multiplied by
/// 1 / sqrt(E), so that tokens are ranked by 2 ln(chance) + G. 1 where no draw is foreseen, and at
/// low temperatures, where counts alone are right as often.
double chance_factor(const DraftPlace& place, TokenId token);

}  // namespace talon
