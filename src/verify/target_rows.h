#pragma once

#include <span>

#include "core/types.h"
#include "sample/race.h"

namespace talon {

/// The target's rows over one checked tree: the row of a node says what follows it. Made by the
/// engine for one verify(), from one stream of a sequence or folded from two (guidance), which no
/// rule needs to know. A row that nobody asks for may never be fetched.
class TargetRows {
 public:
  virtual ~TargetRows() = default;
  /// Logits, valid until the next call of any of the three.
  virtual std::span<const float> logits(NodeId node) = 0;
  /// The token with the largest logit, the smallest id of equals. Throws Error unless that logit is
  /// finite.
  virtual TokenId argmax(NodeId node) = 0;
  /// The winner of the race between all tokens. Throws Error unless the largest logit is
  /// finite.
  virtual TokenId race(NodeId node, const RaceDraw& draw) = 0;
};

}  // namespace talon
