#pragma once

#include <span>
#include <vector>

#include "core/types.h"
#include "tree/draft_tree.h"

namespace talon {

/// The candidates of one dynamic tree in the order in which they were found: level by level, by rank of the parent in the
/// beam, by rank among its children. Of equal scores the earlier candidate always wins, which is never the deeper one, so
/// that the best candidates of any number form a tree. A child's score is at most its parent's.
class CandidatePool {
 public:
  /// Appends a child of `parent` (-1: the root) whose step has `log_p`; its score is the sum over the path. Candidates of a new
  /// level follow start_level(). Steps that are not finite (a head that overflowed, a probability of zero) are ignored.
  void add(int parent, TokenId token, float log_p);
  void start_level() { newest_level_ = size(); }

  int size() const { return static_cast<int>(token_.size()); }
  TokenId token(int candidate) const { return token_[static_cast<std::size_t>(candidate)]; }
  int parent(int candidate) const { return parent_[static_cast<std::size_t>(candidate)]; }
  float score(int candidate) const { return score_[static_cast<std::size_t>(candidate)]; }

  /// Expansion phase: the best `width` candidates of the newest level, best first.
  std::vector<int> beam(int width) const;
  /// Drops from `beam` what the reranking phase can no longer choose: `nodes` candidates are better already, and all
  /// descendants would be worse still.
  void drop_hopeless(std::vector<int>& beam, int nodes) const;
  /// Reranking phase: adds the best `nodes` candidates of all levels to `tree`, in pool order, so that parents precede
  /// children. REQUIRES: tree holds its root only.
  void rerank(int nodes, DraftTree& tree) const;

 private:
  std::vector<int> best(int first, int count) const;
  bool better(int a, int b) const { return score(a) != score(b) ? score(a) > score(b) : a < b; }

  std::vector<TokenId> token_;
  std::vector<float> score_;
  std::vector<int> parent_;
  int newest_level_ = 0;
};

}  // namespace talon
