#include "engine/round/proposer.h"

#include <algorithm>

#include "core/error.h"
#include "core/stopwatch.h"
#include "engine/admission/admission.h"
#include "engine/constraint/constrained_tree.h"
#include "engine/round/ask_policy.h"
#include "engine/round/draft_jobs.h"

namespace talon {
namespace {

ForcedRoom forced_room(const Scheduled& entry, int vocabulary) {
  return {entry.context.rows_available, entry.context.levels_available, vocabulary};
}

Drafter& drafter_of(const Scheduled& entry) { return *entry.sequence->method.parts.drafter; }

}  // namespace

void Proposer::propose(std::vector<Scheduled>& scheduled) {
  plan(scheduled);
  draft(scheduled);
  constrain(scheduled);
  cut(scheduled);
  restore_forced(scheduled);
}

/// Asks each policy how large its tree may be, within the room of cache and forward.
void Proposer::plan(std::vector<Scheduled>& scheduled) {
  const GrantedRows rows = granted_rows(scheduled);
  for (Scheduled& entry : scheduled) {
    Sequence& sequence = *entry.sequence;
    entry.tree.reset(sequence.tokens.back());
    if (!entry.decodes) continue;
    entry.context = {.position = sequence.length() - 1,
                     .rows_available = reserve_drafts(*sequence.cache, cache_.free_pages(),
                                                      entry.grant.draft_rows),
                     .levels_available = sequence.limit - sequence.length() - 1,
                     .sequences = rows.sequences,
                     .mean_position = rows.mean_position,
                     .other_rows = rows.all - 1,
                     .prompt_rows = rows.prompts,
                     .answer_position = sequence.length() - 1 - sequence.prompt_length(),
                     .feature = sequence.feature,
                     .node_rows = sequence.streams()};
    ask_policy(entry, faults_,
               [&](PolicyState& policy) { entry.plan = policy.plan(entry.context); });
  }
}

/// Lets the drafters grow the trees, one drafter after the other.
void Proposer::draft(std::vector<Scheduled>& scheduled) {
  std::vector<Scheduled*> left;
  for (Scheduled& entry : scheduled) {
    if (entry.decodes && entry.sequence->drafts() && entry.plan.nodes > 0) left.push_back(&entry);
  }
  while (!left.empty()) {
    Drafter& drafter = drafter_of(*left.front());
    const auto others = std::stable_partition(
        left.begin(), left.end(),
        [&](const Scheduled* entry) { return &drafter_of(*entry) == &drafter; });
    const Stopwatch watch;
    draft_with(drafter, {left.begin(), others});
    const double ms = kept_time_.ms(StepPart::draft, watch.ms());
    for (Scheduled* entry : std::span(left.begin(), others))
      entry->own_draft_ms = entry->sharers > 0 ? ms : 0;
    left.erase(left.begin(), others);
  }
}

/// One call for all sequences of a drafter.
void Proposer::draft_with(Drafter& drafter, std::span<Scheduled* const> scheduled) {
  DraftJobs jobs(faults_);
  const bool proposed = faults_.contain(FaultOrigin::drafter, [&] {
    drafter.propose(jobs.of(scheduled));
    for (Scheduled* entry : scheduled) drop_unknown_tokens(entry->tree, vocabulary_);
  });
  const auto ran = static_cast<int>(std::ranges::count_if(jobs.all(), &DraftJob::ran_passes));
  const int sharers = ran > 0 ? ran : static_cast<int>(scheduled.size());
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    Scheduled* const entry = scheduled[i];
    entry->sharers = ran == 0 || jobs.all()[i].ran_passes ? sharers : 0;
    if (proposed && !jobs.policy_failed(i)) continue;
    entry->sequence->drop_to_plain(faults_);
    entry->tree = DraftTree(entry->sequence->tokens.back());
  }
}

/// Trees of sequences that are constrained lose what cannot become text, and get what must follow.
void Proposer::constrain(std::vector<Scheduled>& scheduled) {
  change_constrained(scheduled, [this](Scheduled& entry) {
    Sequence& sequence = *entry.sequence;
    drop_forbidden(entry.tree, *sequence.constraint, sequence.answer());
    add_forced(entry.tree, *sequence.constraint, sequence.answer(), forced_room(entry, vocabulary_),
               kForcedSource);
  });
}

/// Adds again what must follow the text: it is checked whatever the policy thinks of drafts.
void Proposer::restore_forced(std::vector<Scheduled>& scheduled) {
  change_constrained(scheduled, [this](Scheduled& entry) {
    Sequence& sequence = *entry.sequence;
    add_forced_at_root(entry.tree, *sequence.constraint, sequence.answer(),
                       forced_room(entry, vocabulary_), kForcedSource);
  });
}

/// Does `change` for each sequence whose drafts its constraint shapes. One that throws loses its
/// drafts; where it throws about the text itself, too, Round::accept() ends the sequence.
template <typename Change>
void Proposer::change_constrained(std::vector<Scheduled>& scheduled, Change&& change) {
  for (Scheduled& entry : scheduled) {
    const Sequence& sequence = *entry.sequence;
    const bool forces =
        entry.decodes && sequence.constraint && sequence.drafts() && sequence.method.drafts;
    if (!forces) continue;
    if (faults_.contain(FaultOrigin::sequence, [&] { change(entry); })) continue;
    entry.tree = DraftTree(entry.tree[0].token);
  }
}

/// Cuts the trees to what is worth its rows: all policies offer before the first selects.
void Proposer::cut(std::vector<Scheduled>& scheduled) {
  int drafted_rows = 0;
  row_budget_.begin_round();
  for (Scheduled& entry : scheduled) {
    ask_policy(entry, faults_,
               [&](PolicyState& policy) { policy.offer(entry.tree, entry.context, row_budget_); });
  }
  for (Scheduled& entry : scheduled) {
    entry.context.drafted_rows = drafted_rows;
    ask_policy(entry, faults_, [&](PolicyState& policy) {
      policy.select(entry.tree, entry.plan, entry.context, row_budget_);
      expects(entry.tree.draft_nodes() <= entry.context.rows_available, "a tree within its plan");
    });
    drafted_rows += entry.tree.draft_nodes() * entry.sequence->streams();
  }
}

}  // namespace talon
