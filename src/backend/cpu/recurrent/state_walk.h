#pragma once

#include <span>
#include <vector>

#include "backend/arguments.h"

namespace talon::cpu {

/// In which order the rows of a run are stepped through, and where their states lie meanwhile: in
/// as few buffers as the order allows.
struct StateWalk {
  static constexpr int kStart = -1;  // the state that the run follows
  static constexpr int kNowhere = -2;
  struct Visit {
    int entry;
    int from;  // a buffer, or kStart
    int to;    // a buffer, or kNowhere: nothing follows
  };
  std::vector<Visit> visits;
  int buffers = 0;

  static StateWalk of(const StateRun& run, std::span<const StateRow> rows);
};

}  // namespace talon::cpu
