#pragma once

#include <utility>

#include "engine/faults.h"
#include "engine/round/round_report.h"

namespace talon {

/// The times of a step that count: the timekeeper's, if there is one. Borrows the faults.
class KeptTime {
 public:
  KeptTime(Timekeeper timekeeper, Faults& faults)
      : timekeeper_(std::move(timekeeper)), faults_(faults) {}

  double ms(StepPart part, double measured_ms) {
    if (!timekeeper_) return measured_ms;
    double kept_ms = measured_ms;
    faults_.contain(FaultOrigin::observer, [&] { kept_ms = timekeeper_(part, measured_ms); });
    return kept_ms;
  }

 private:
  Timekeeper timekeeper_;
  Faults& faults_;
};

}  // namespace talon
