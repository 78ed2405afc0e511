#pragma once

#include "core/error.h"

namespace talon::test {

/// Throws at the nth tick, or at every tick from then on.
struct Trigger {
  void arm(long at, bool for_ever) {
    left = at;
    lasts = for_ever;
    fired = false;
  }
  bool due() {
    if (left == 0) return false;
    if (left > 1) {
      --left;
      return false;
    }
    fired = true;
    if (!lasts) left = 0;
    return true;
  }
  void tick() {
    if (due()) fail("a fault made on purpose");
  }

  long left = 0;  // 0: off; 1: the next tick throws
  bool lasts = false;
  bool fired = false;
};

/// Ticks at every allocation in the scope of a FaultyAllocations. The program that links this has
/// an operator new that may fail.
Trigger& allocation_trigger();
/// The same at allocations of all other threads meanwhile: of the workers whose regions the scope's
/// thread runs. To be looked at and armed between regions.
Trigger& worker_allocation_trigger();

class FaultyAllocations {
 public:
  FaultyAllocations();
  ~FaultyAllocations();
  FaultyAllocations(const FaultyAllocations&) = delete;
  FaultyAllocations& operator=(const FaultyAllocations&) = delete;
};

}  // namespace talon::test
