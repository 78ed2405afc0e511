#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "draft/drafter.h"
#include "model/tap_set.h"
#include "train/policy/draft_examples.h"

namespace talon {

struct CollectorOptions {
  int levels = 8;
  int width = 1;        // nodes expanded per level
  int most_nodes = 59;  // of a check: what StopOutcome counts
  /// Drafts at every position, or only where a round of whole drafts would begin.
  bool every_position = true;
  bool features = true;  // keep what the policy ada_eagle sees
  std::vector<TokenId> end_tokens;
};

/// Drafts with another drafter and proposes nothing: the engine decodes plainly, and every draft is
/// kept with what the text then turned out to be. One text each start().
class DraftCollector : public Drafter {
 public:
  /// backend: of the target.
  DraftCollector(std::unique_ptr<Drafter> drafter, Backend& backend, CollectorOptions options);
  ~DraftCollector() override;

  DrafterTraits traits() const override { return {.taps = taps_.taps()}; }
  std::unique_ptr<DraftState> start() override;
  void observe(DraftState& state, const CommittedTokens& committed) override;
  void propose(std::span<DraftJob> jobs) override;

  /// Of the texts observed so far, in any order. Drafts whose continuation is not known are left
  /// out; a text that was observed up to an end token is known to its end.
  std::vector<DraftExample> take_examples();
  std::size_t examples() const { return examples_.size(); }

 private:
  struct Text;
  class Recorder;
  struct State;

  bool wants_draft(const Text& text, const DraftJob& job) const;
  void settle(Text& text, bool is_over);

  std::unique_ptr<Drafter> drafter_;
  Backend& backend_;
  CollectorOptions options_;
  TapSet taps_;
  TapSet::Reader drafters_, own_;
  std::vector<std::unique_ptr<Text>> texts_;
  std::vector<DraftExample> examples_;
};

}  // namespace talon
