#pragma once

#include <optional>
#include <vector>

#include "core/types.h"
#include "draft/draft_job.h"
#include "draft/lookup/ngram_pool.h"
#include "tree/draft_tree.h"

namespace talon {

/// Lookahead's window (arXiv:2402.02057): guesses for the places ahead on `ngram` - 1 levels. Level
/// 0 is a chain below the root; column j of the others hangs below its first tokens, level under
/// level, and what is drawn after the last level is the next one. Columns are n-grams for the pool.
class JacobiWindow {
 public:
  JacobiWindow(int width, int ngram) : width_(width), ngram_(ngram) {}

  bool is_empty() const { return levels_.empty(); }
  int first_tokens() const { return width_ + ngram_ - 3; }
  /// The first level. REQUIRES: first_tokens() of them.
  void begin(std::vector<TokenId> first) { levels_ = {std::move(first)}; }
  bool is_full() const { return static_cast<int>(levels_.size()) == ngram_ - 1; }
  const std::vector<std::vector<TokenId>>& levels() const { return levels_; }

  int nodes() const;
  int depth() const;
  /// Of the largest stage that such a window goes through. Of more columns than levels the last is
  /// it, width * (ngram - 1) - 1.
  static int most_nodes(int width, int ngram);
  /// Adds the window below the root of `tree` as probes.
  void add_to(DraftTree& tree, float log_p, std::uint32_t source) const;
  /// What was drawn after each column of the last level; nothing if the tree lacks one.
  std::optional<std::vector<TokenId>> drawn_in(const DraftTree& tree,
                                               const TokenAfter& drawn) const;
  /// Takes what was drawn: columns of a full window go into the pool, and levels move up by one.
  void advance(TokenId root, std::vector<TokenId> drawn, NgramPool& pool);

 private:
  /// Calls visit(parent, token) for each node in order, which gives a node or -1; says what it
  /// gave for the last level.
  template <typename Visit>
  std::vector<NodeId> walk(Visit&& visit) const;

  int width_;
  int ngram_;
  std::vector<std::vector<TokenId>> levels_;
};

}  // namespace talon
