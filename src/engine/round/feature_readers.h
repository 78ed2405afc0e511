#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/index_list.h"
#include "core/feature_tap.h"
#include "draft/drafter.h"
#include "engine/commit_listener.h"
#include "engine/sequence.h"
#include "model/tap_set.h"
#include "model/target.h"

namespace talon {

/// Rows of a forward that became text. Borrowed for the call.
struct KeptRows {
  const ForwardResult& forward;
  std::size_t part = 0;               // of the forward: which sequence's
  std::span<const NodeId> rows = {};  // counted from the first of the part
};

/// Who reads the target's features, and what a commit shows them: the drafter and the listener each
/// token with the row that produced it, the policy the row that produced the next root. Borrows
/// backend and listener; holds scratch memory.
class FeatureReaders {
 public:
  /// listener: may be null.
  FeatureReaders(Backend& backend, CommitListener* listener, TapSet::Reader listener_taps)
      : backend_(backend),
        listener_(listener),
        listener_taps_(listener_taps),
        gathered_rows_(backend) {}

  /// From now on forwards tap what `wanted` says.
  void tap(const TapSet& wanted) { taps_ = wanted; }
  const std::vector<FeatureTap>& taps() const { return taps_.taps(); }
  /// For forwards of at most `rows` rows with `width` features.
  void make_room(int rows, int width) { features_ = backend_.allocate(rows, width); }

  /// Shows the drafter the tokens that the rows produced, the first time the start of the text as
  /// well, and its policy the last of the rows, once wait() has returned. Throws what the drafter
  /// throws.
  void show_drafter(Sequence& sequence, const KeptRows& kept);
  /// Shows the listener the tokens that the rows produced. Throws what it throws.
  void show_listener(Sequence& sequence, const KeptRows& kept);
  /// For what policies are shown.
  void wait();

 private:
  std::vector<TokenId> add_guide(const Sequence& sequence, const KeptRows& kept,
                                 TapSet::Reader reader, CommittedTokens& committed);
  void keep_policy_feature(Sequence& sequence, const View& features);
  View features_of(const KeptRows& kept);
  View features_of(const View& all, int first, std::span<const NodeId> rows, int gathered = 0);

  Backend& backend_;
  CommitListener* listener_;
  TapSet::Reader listener_taps_;
  TapSet taps_;
  IndexList gathered_rows_;
  Buffer features_;  // of an accepted path whose rows are not neighbours, and of its guide
  std::vector<Fence> feature_fences_;  // of downloads to Sequence::feature
};

}  // namespace talon
