#pragma once

#include "engine/faults.h"
#include "engine/round/scheduled.h"
#include "engine/sequence.h"
#include "tree/tree_policy.h"

namespace talon {

/// The sequence goes on by plain decoding, for what was thrown last.
inline void drop_to_plain(Sequence& sequence, Faults& faults) {
  sequence.draft.reset();
  sequence.policy.reset();
  faults.drop();
}

/// Asks the policy of a sequence that decodes, if it drafts; one that throws drops it.
template <typename Ask>
void ask_policy(Scheduled& entry, Faults& faults, Ask&& ask) {
  Sequence& sequence = *entry.sequence;
  if (!entry.decodes || !sequence.drafts()) return;
  if (faults.contain(FaultOrigin::policy, [&] { ask(*sequence.policy); })) return;
  drop_to_plain(sequence, faults);
  entry.tree = DraftTree(entry.tree[0].token);
}

}  // namespace talon
