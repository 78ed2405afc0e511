#pragma once

#include <span>
#include <vector>

#include "core/feature_tap.h"
#include "core/types.h"
#include "draft/drafter.h"

namespace talon {

/// Watches the text of every sequence as it grows, with the target rows that produced it, and
/// changes nothing. What it throws costs it the rest of that sequence and nobody a token. Must not
/// call the engine.
class CommitListener {
 public:
  virtual ~CommitListener() = default;
  /// What committed() wants of the target rows. The same for as long as it lives.
  virtual std::vector<FeatureTap> taps() const { return {}; }
  /// Of how many first tokens of a text it can do without the rows: those that the cache remembers
  /// are not run.
  virtual int remembers(std::span<const TokenId> text) {
    return taps().empty() ? static_cast<int>(text.size()) : 0;
  }
  /// The sequence is admitted. `known`: its first tokens, at most remembers(), which are not shown.
  virtual void begin(SequenceId sequence, std::span<const TokenId> known) = 0;
  /// What follows them, in order, each token once.
  virtual void committed(SequenceId sequence, const CommittedTokens& committed) = 0;
  /// It has ended, or gives its room to others: then it begins anew.
  virtual void end(SequenceId sequence) = 0;
};

}  // namespace talon
