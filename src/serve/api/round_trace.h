#pragma once

#include <vector>

#include "engine/round/round_report.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace talon {

/// How tokens of an answer came about: for clients that ask to see it (`talon.trace`).
struct RoundTrace {
  std::vector<TokenId> tokens;        // that became text
  int accepted = 0;                   // how many of the first of them had been drafted
  std::vector<DraftTree::Node> tree;  // as it was checked; empty for the token of the prompt
  std::vector<NodeId> path;           // nodes of the tree that became text, root included
  double draft_ms = 0, check_ms = 0;  // of the round, which others may share
};

/// All but what became text, which the news tell.
RoundTrace trace_of(const RoundReport& report);
std::size_t bytes_of(const RoundTrace& round);
/// Trees take their nodes from `room`; the first that finds too little is left out, and all after.
void keep_trees(std::vector<RoundTrace>& rounds, std::size_t& room);

/// {tokens, texts, bytes, accepted, draft_ms, check_ms, tree: {tokens, texts, parents, p, path}};
/// without a tree where none was drafted.
Json trace_json(const RoundTrace& round, const Tokenizer& tokenizer);

}  // namespace talon
