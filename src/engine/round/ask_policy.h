#pragma once

#include "engine/faults.h"
#include "engine/round/scheduled.h"
#include "engine/sequence.h"
#include "tree/tree_policy.h"

namespace talon {

/// Asks the policy of a sequence that decodes, if it drafts; one that throws drops it.
template <typename Ask>
void ask_policy(Scheduled& entry, Faults& faults, Ask&& ask) {
  Sequence& sequence = *entry.sequence;
  if (!entry.decodes || !sequence.drafts()) return;
  if (faults.contain(FaultOrigin::policy, [&] { ask(*sequence.policy); })) return;
  sequence.drop_to_plain(faults);
  entry.tree = DraftTree(entry.tree[0].token);
}

}  // namespace talon
