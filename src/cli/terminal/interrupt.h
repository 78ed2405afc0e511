#pragma once

#include "core/stop.h"

namespace talon {

/// While one lives, Ctrl-C requests stop() instead of ending the program, and so does SIGTERM, with
/// which service managers and schedulers end programs; a second one before stop() was cleared ends
/// it at once, without files that are half written (remove_files_aside). At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  StopFlag& stop() const;
  /// Whether SIGTERM came: it ends a program that goes on after Ctrl-C, too.
  bool is_over() const;
};

}  // namespace talon
