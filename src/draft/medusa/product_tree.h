#pragma once

#include <cstdint>
#include <span>

#include "draft/growth/static_tree.h"
#include "draft/growth/tree_growth.h"
#include "tree/draft_tree.h"

namespace talon {

/// What Medusa heads guess for one sequence: of each head its likeliest tokens, likeliest first. A
/// guess of head i does not know those of the heads before it, so every choice of one token per
/// head is a path, and its probability is the product.
struct ProductGuesses {
  struct Guess {
    TokenId token;
    float log_p;
  };
  std::vector<std::vector<Guess>> heads;

  /// Row `row` of each head's children. Guesses that are not finite are left out.
  static ProductGuesses of(std::span<const RowChildren> heads, int row);
  /// Of `count` rows of one list, from `first` on: each row holds the guesses for one place.
  static ProductGuesses of_rows(const RowChildren& places, int first, int count);
};

/// Adds to `tree` the `nodes` likeliest beginnings of paths, at most `levels` long, as proposed by
/// `source`. Those below a node that the tree has already continue at its depth. Best first:
/// arXiv:2604.12989 for block drafters.
void grow_product_tree(const ProductGuesses& guesses, int levels, int nodes, DraftTree& tree,
                       std::uint32_t source = 1);

/// Adds those that `shape` names (Medusa's `medusa_choices`: paths of ranks), the likeliest
/// `nodes`.
void place_product_tree(const ProductGuesses& guesses, const StaticTree& shape, int nodes,
                        DraftTree& tree);

}  // namespace talon
