#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/types.h"
#include "tree/draft_tree.h"

namespace talon {

/// What one round did for one sequence. Borrowed for the call.
struct RoundReport {
  SequenceId sequence = 0;
  int round = 0;                    // 1 for the first after the prefill
  int position = 0;                 // of the root in the text, 0-based
  const DraftTree* tree = nullptr;  // as it was checked
  /// Of a mixture per node: how many experts its row was the first of the check to go to, over all
  /// layers. Over all rows of a check they add up to the experts that it read. Else empty.
  std::span<const std::int32_t> experts = {};
  std::span<const NodeId> accepted;  // node ids, root included; of what became text
  /// Tokens that became text: those of the accepted nodes and the one that follows.
  std::span<const TokenId> emitted;
  double distortion = 0;  // VerifyResult::distortion
  int sequences = 1;      // that decoded in the round; they share the times
  double draft_ms = 0;    // in the drafter and the policy
  double check_ms = 0;    // in the target
  double other_ms = 0;    // the rest of the step
};

/// The parts of a step that are timed: drafter and policies, target, all else.
enum class StepPart { draft, check, rest };
/// Called with each time that was measured, in the order of the parts, before anything learns from
/// it; what it returns counts instead. `draft` is told for each drafter and then in all. Replaying
/// the times of another run repeats its trees.
using Timekeeper = std::function<double(StepPart part, double measured_ms)>;

/// Called once per decoding sequence at the end of each Engine::step(). Must not call the engine.
using RoundObserver = std::function<void(const RoundReport&)>;

}  // namespace talon
