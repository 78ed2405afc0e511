#pragma once

#include <memory>
#include <span>
#include <vector>

#include "draft/draft_job.h"

namespace talon {

/// Guesses continuations. Weights are immutable and shared by all sequences; memory lives in a
/// DraftState. Observes committed tokens: no drafter knows of rejection, rollback or batching.
/// Batch first.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual DrafterTraits traits() const { return {}; }
  std::vector<FeatureTap> taps() const { return traits().taps; }
  virtual std::unique_ptr<DraftState> start() = 0;
  /// How many first tokens of a prompt resume() can take for that owner. The target does not run
  /// the rows of a prefix that its cache remembers, so drafters with taps must remember them, too.
  virtual int remembers(std::span<const TokenId> prompt, const TextOwner& owner) {
    static_cast<void>(owner);
    return taps().empty() ? static_cast<int>(prompt.size()) : 0;
  }
  /// As start(), then `known` observed: the first tokens of a prompt, at most remembers() of them.
  /// expected: a text that this one may come to be like, from its prompt's last tokens on, or
  /// empty; drafters of repeated texts use it. Borrowed for the call.
  virtual std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                             std::span<const TokenId> expected) {
    static_cast<void>(expected);
    auto state = start();
    state->owner = owner;
    if (!known.empty()) observe(*state, {.tokens = known, .first_has_row = false});
    return state;
  }
  virtual void observe(DraftState& state, const CommittedTokens& committed) = 0;
  /// For drafters of DrafterTraits::sees_draws, after each check and before the round's tokens are
  /// observed. tree: as it was checked, nodes of other drafters among them. Borrowed for the call.
  virtual void saw(DraftState&, const DraftTree&, const TokenAfter&) {}
  /// Rows of text that it could not keep for want of room in a cache of its own, since it was made:
  /// what it lacks costs acceptance.
  virtual long lost_rows() const { return 0; }
  /// A later sequence may begin with the text of `state`: what remembers() should count is put
  /// where it lasts. has_ended: else this very text goes on later, in another state. Nothing but
  /// destruction follows.
  virtual void finish(DraftState&, bool has_ended) { static_cast<void>(has_ended); }
  /// Grows each job's tree. The root of each is the token observed last. The engine cuts the trees
  /// with the job's PolicyState::select afterwards.
  virtual void propose(std::span<DraftJob> jobs) = 0;
};

}  // namespace talon
