#pragma once

#include <span>
#include <vector>

#include "engine/round/scheduler.h"
#include "engine/sequence.h"
#include "model/target.h"
#include "tree/draft_tree.h"
#include "tree/tree_plan.h"
#include "verify/verifier.h"

namespace talon {

/// One sequence in one round, with a chunk of its prompt or a tree.
struct Scheduled {
  Sequence* sequence = nullptr;
  RowGrant grant;
  bool decodes = false;  // has a tree; else a prompt chunk
  bool chooses = false;  // its last rows choose tokens: decoding, or the chunk that ends the prompt
  TreePlan plan;
  PlanContext context;
  DraftTree tree{0};                         // of a chunk: the root only, which is its last row
  std::vector<TokenId> tokens;               // per node of the tree: the rows of its check
  std::vector<NodeId> parents;               // of each node of the tree
  std::span<const std::int32_t> first_uses;  // of its rows: ForwardResult::first_uses, or empty
  VerifyResult verdict;
  double own_draft_ms = 0;  // RoundOutcome::own_draft_ms
  int sharers = 0;          // RoundOutcome::sharers
};

/// What its drafter is asked for.
DraftJob draft_job_of(Scheduled& entry);

/// What it adds to the forward.
SequenceRows rows_of(Scheduled& entry, const ModelConfig& config);

/// What races for each row that chooses tokens, one after the other: as drawn_token() asks where
/// the sequence's sampler leaves all to a race, else anything.
std::vector<RaceDraw> race_draws(std::span<const Scheduled> scheduled);

/// What a round runs beside draft nodes.
struct GrantedRows {
  int sequences = 0;  // that decode
  int all = 0;
  int prompts = 0;        // of all: rows of prompts
  int mean_position = 0;  // of the roots of those that decode
};

GrantedRows granted_rows(std::span<const Scheduled> scheduled);

/// Of the rows that choose tokens, counted one after the other, those whose logits are read, as far
/// as that is known by now, ascending: where the rule or the sampler needs them, and for
/// log-probabilities the root's and those on the way that a verdict took.
std::vector<int> rows_to_read(std::span<const Scheduled> scheduled);

/// The tokens that its verdict adds to the text.
std::vector<TokenId> chosen_tokens(const Scheduled& entry);
/// Keeps for the request what the target thought of each of them, if it asks for that.
void note_logprobs(const Scheduled& entry, TargetRows& rows);
/// Rows of the forward that became text.
std::vector<NodeId> committed_rows(const Scheduled& entry);

/// What drafting took beside the drafters' calls, of draft_ms in all, belongs to all who drafted.
void share_drafting(std::span<Scheduled> scheduled, double draft_ms);

}  // namespace talon
