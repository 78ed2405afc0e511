#pragma once

#include <utility>

#include "tree/policies/throughput/trial.h"

namespace talon {

/// A trial that the sequences of a crowd make together, of what costs all of them much the same
/// whoever has a part in it: in a round all are told to do it, or none is, and what it brought is
/// the mean of their gains, which one text alone hardly moves.
class CrowdTrial {
 public:
  /// Asked by sequences of a round, however often. A round has another number than the one before.
  bool wants(long round) {
    turn_to(round);
    if (!std::exchange(is_asked_, true)) wants_ = trial_.wants();
    return wants_;
  }
  /// One sequence did it in the round, and found that it brought `gain` tokens net of its time.
  void learn(long round, double gain) {
    turn_to(round);
    gain_ += gain;
    ++learners_;
  }
  /// As far as rounds before the one it was last asked in tell:
  bool pays() const { return trial_.value() > 0; }
  bool is_given_up() const { return trial_.is_given_up(); }

 private:
  void turn_to(long round) {
    if (round == round_) return;
    if (learners_ > 0) trial_.learn(gain_ / learners_);
    round_ = round;
    is_asked_ = false;
    gain_ = 0;
    learners_ = 0;
  }

  Trial trial_{0, /*of_many=*/true};

  // Of the current round:
  long round_ = 0;
  bool is_asked_ = false;
  bool wants_ = false;
  double gain_ = 0;  // of all that did it
  int learners_ = 0;
};

}  // namespace talon
