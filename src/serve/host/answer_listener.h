#pragma once

#include "engine/engine.h"

namespace talon {

/// Told what becomes of one job, on the engine's thread: must be quick and take no lock for long.
/// What taken() and news() throw ends the job.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  /// The engine has it: it is not refused any more.
  virtual void taken() {}
  /// What the round drafted whose tokens the next news tell.
  virtual void drafted(const RoundReport&) {}
  /// New tokens, or the end: as failed maybe before all else. `statistics`: so far.
  virtual void news(const Progress& progress, const SequenceStatistics& statistics) = 0;
  /// It was never begun. Nothing follows.
  virtual void refused(const Refusal& refusal) noexcept = 0;
};

}  // namespace talon
