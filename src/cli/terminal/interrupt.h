#pragma once

#include <vector>

#include "core/stop.h"

namespace talon {

/// SIGINT of Ctrl-C, SIGTERM of service managers and schedulers, and SIGHUP of a terminal that is
/// closed, unless it is ignored, as `nohup` has it.
std::vector<int> ending_signals();

/// While one lives, each of ending_signals() requests stop() instead of ending the program; a
/// second one before stop() was cleared ends it at once, without files that are half written
/// (remove_files_aside). SIGPIPE of a reader that is gone ends it as ever, and without those files,
/// too. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  StopFlag& stop() const;
  /// Whether one but Ctrl-C came: it ends a program that goes on after Ctrl-C, too.
  bool is_over() const;
};

/// Whether stop() of the one that lives, or of the last one, is requested.
bool interrupt_requested();

}  // namespace talon
