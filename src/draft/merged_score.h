#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/types.h"
#include "tree/calibration.h"
#include "tree/draft_tree.h"

namespace talon {

/// How often draft nodes are right, by the set of drafters that proposed them. One per sequence,
/// upon one of all sequences.
class SourceCalibration {
 public:
  /// `prior` (borrowed, may be null) is what little experience falls back on.
  explicit SourceCalibration(SourceCalibration* prior = nullptr) : prior_(prior) {}

  double probability(std::uint32_t sources, int depth, double belief);
  void observe(std::uint32_t sources, int depth, double belief, bool right);

 private:
  Calibration& of(std::uint32_t sources);

  SourceCalibration* prior_;
  std::map<std::uint32_t, Calibration> by_sources_;
};

/// A tree that grows from the trees of several drafters, with what they believe.
class MergedTree {
 public:
  explicit MergedTree(TokenId root) : tree_(root) {}

  const DraftTree& tree() const { return tree_; }
  /// Adds the nodes of one drafter's tree with the same root. `source`: its bit of
  /// DraftTree::sources.
  void add(const DraftTree& part, std::uint32_t source);
  /// Takes over what a drafter made of tree() by adding to it as `source`.
  void take_extended(DraftTree extended, std::uint32_t source);
  /// Sets log_p to the logarithms of the calibrated chances.
  void score(SourceCalibration& calibration);
  /// Every child of a node on the way that `text`, which followed the root, took was a trial.
  void learn(std::span<const TokenId> text, SourceCalibration& calibration) const;

 private:
  DraftTree tree_;
  std::vector<double> beliefs_{
      1.0};  // per node: its chance given its parent, as the surest of its sources believes
};

}  // namespace talon
