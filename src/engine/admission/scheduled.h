#pragma once

#include <vector>

#include "engine/admission/scheduler.h"
#include "engine/sequence.h"
#include "tree/draft_tree.h"
#include "tree/tree_plan.h"
#include "verify/verifier.h"

namespace talon {

/// One sequence in one round, with a chunk of its prompt or a tree.
struct Scheduled {
  Sequence* sequence = nullptr;
  RowGrant grant;
  bool decodes = false;  // has a tree; else a prompt chunk
  bool draws = false;    // its last rows choose tokens: decoding, or the chunk that ends the prompt
  TreePlan plan;
  PlanContext context;
  DraftTree tree{0};            // of a chunk: the root only, which is its last row
  std::vector<TokenId> tokens;  // per node of the tree: the rows of its check
  std::vector<NodeId> parents;  // likewise
  VerifyResult verdict;
  double own_draft_ms = 0;            // RoundOutcome
  int sharers = 0;                    // likewise
  double draft_ms = 0, check_ms = 0;  // of the whole round
};

/// What a round runs beside draft nodes.
struct GrantedRows {
  int sequences = 0;  // that decode
  int all = 0;
  int prompts = 0;  // of all: rows of prompts
};

inline GrantedRows granted_rows(const std::vector<Scheduled>& scheduled) {
  GrantedRows rows;
  for (const Scheduled& entry : scheduled) {
    const int granted = entry.grant.rows * entry.sequence->request.streams();
    rows.all += granted;
    rows.sequences += entry.decodes ? 1 : 0;
    rows.prompts += entry.decodes ? 0 : granted;
  }
  return rows;
}

}  // namespace talon
