#pragma once

#include <vector>

#include "core/types.h"
#include "tree/draft_tree.h"

namespace talon {

/// The candidates of one dynamic tree in the order in which they were found: level by level, by
/// rank of the parent in the beam, by rank among its children. Of equal scores the earlier
/// candidate always wins, which is never the deeper one, so that the best candidates of any number
/// form a tree. A child's score is at most its parent's.
class CandidatePool {
 public:
  /// The children added from now on are one level deeper than those before.
  void start_level() { newest_level_ = size(); }
  /// Appends a child of `parent` (-1: the root) whose step has `log_p`; its score is the sum over
  /// the path. Steps that are not finite (a head that overflowed, a probability of zero) are
  /// ignored.
  void add(int parent, TokenId token, float log_p);
  /// Notes that the tree already has the child, as `node`, with path_log_p: another drafter's,
  /// which is kept in any case. REQUIRES: children of `parent` were added on the newest level only.
  void adopt(int parent, TokenId token, NodeId node, float path_log_p);

  int size() const { return static_cast<int>(candidates_.size()); }
  TokenId token(int candidate) const { return at(candidate).token; }
  int parent(int candidate) const { return at(candidate).parent; }
  float score(int candidate) const { return at(candidate).score; }
  /// The node it was adopted as, or -1.
  NodeId node(int candidate) const { return at(candidate).node; }

  /// Expansion phase: the best `width` candidates of the newest level, best first.
  std::vector<int> beam(int width) const;
  /// Drops from `beam` what the reranking phase can no longer choose: `nodes` candidates are better
  /// already, and all descendants would be worse still.
  void drop_hopeless(std::vector<int>& beam, int nodes) const;
  /// Reranking phase: adds the best `nodes` candidates of all levels to `tree`, adopted ones not
  /// counted, in pool order, so that parents precede children. REQUIRES: tree is as it was when its
  /// nodes were adopted. source: noted as who proposed them.
  void rerank(int nodes, DraftTree& tree, std::uint32_t source) const;

 private:
  struct Candidate {
    TokenId token;
    int parent;
    float step;   // log-probability given the parent
    float score;  // of the path
    NodeId node;
    bool ours;  // proposed by the head, whether adopted or not
  };
  const Candidate& at(int candidate) const {
    return candidates_[static_cast<std::size_t>(candidate)];
  }
  float score_above(int parent) const { return parent < 0 ? 0.0F : score(parent); }
  bool better(int a, int b) const { return score(a) != score(b) ? score(a) > score(b) : a < b; }
  std::vector<int> best_new(int count) const;

  std::vector<Candidate> candidates_;
  int newest_level_ = 0;
};

}  // namespace talon
