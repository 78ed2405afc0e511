#pragma once

#include <array>
#include <span>
#include <vector>

#include "tree/calibration.h"
#include "tree/draft_tree.h"

namespace talon {

/// The chances of one sequence's draft nodes to become text: the drafter's own, calibrated by what
/// came true before, here and in other sequences. Learns from all nodes that were proposed, bought
/// or not.
class NodeWorth {
 public:
  /// shared: with other sequences, one for each kind of places. Borrowed.
  explicit NodeWorth(std::span<Calibration> shared) : shared_(shared) {
    for (const Calibration& each : shared) own_.emplace_back(&each);
  }

  /// Chances that the root's children are right, added up.
  double coverage(const DraftTree& tree) const;

  /// Forgets the last round's tree. kind: of places, of the calibrations that it was made with.
  void begin_round(std::size_t kind = 0) {
    kind_ = kind;
    proposed_.reset(0);
  }
  /// Ranks the nodes of a tree. Nodes that were drawn keep their order, and their chance is that of
  /// others in their place before: it may not depend on their tokens.
  void rank(const DraftTree& tree);
  const DraftTree& proposed() const { return proposed_; }
  /// Chances of the ranked nodes, descending.
  std::span<const double> chances() const { return offered_; }
  NodeId ranked(std::size_t i) const { return ranked_[i]; }
  /// Cuts the tree that was ranked to its first `count` nodes. Ends the ranking.
  void keep_first(std::size_t count, DraftTree& tree);

  /// Returns how many levels the text followed.
  int learn(std::span<const TokenId> emitted);

 private:
  static constexpr std::size_t kMostPlaces = 256;
  struct Place {
    double right = 0;
    double trials = 0;
  };
  double calibrated(const DraftTree& tree, NodeId node) const;
  double place_chance(NodeId node) const;
  static std::size_t place_of(NodeId node);
  void learn_places(std::span<const TokenId> emitted);

  std::span<Calibration> shared_;
  std::vector<Calibration> own_;             // of this sequence, one for each kind of places
  std::array<Place, kMostPlaces> places_{};  // of drawn trees, by node id

  // Of the current round:
  std::size_t kind_ = 0;
  DraftTree proposed_{0};        // as the drafter made it
  std::vector<double> chance_;   // of the path, per node
  std::vector<NodeId> ranked_;   // draft nodes, likeliest first
  std::vector<double> offered_;  // their chances
  std::vector<bool> on_text_;
};

}  // namespace talon
