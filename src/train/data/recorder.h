#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "draft/drafter.h"
#include "model/tap_set.h"

namespace talon {

/// The rows of one sequence as half floats.
struct Recording {
  std::vector<std::uint16_t> rows;  // [rows, taps * hidden]
  std::uint32_t saturated = 0;      // values beyond the half floats, stored as the largest
};

/// Records the target's rows that it is shown while another drafter works: features cost no pass of
/// their own. Remembers the conversation that ended last: what a later prompt has in common with
/// its beginning, as that of a chat template, is copied from it and not run again.
class RecordingDrafter : public Drafter {
 public:
  /// Records `taps`, none of them: nothing. `backend` is the target's, borrowed.
  RecordingDrafter(std::unique_ptr<Drafter> inner, const std::vector<FeatureTap>& taps,
                   Backend& backend);

  /// Sequences start in the order in which they were submitted: the next one that does, for which
  /// none was named yet, goes into `recording`, borrowed for as long as it runs. Call it with every
  /// submission.
  void record_into(Recording& recording) { waiting_.push_back(&recording); }

  DrafterTraits traits() const override;
  std::unique_ptr<DraftState> start() override;
  int remembers(std::span<const TokenId> prompt) override;
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known) override;
  /// Throws Error for a row that holds NaN.
  void observe(DraftState& state, const CommittedTokens& committed) override;
  void finish(DraftState& state) override;
  void propose(std::span<DraftJob> jobs) override;

  std::uint64_t copied_rows() const { return copied_rows_; }  // of all sequences

 private:
  void record(const View& rows, Recording& recording);

  std::unique_ptr<Drafter> inner_;
  TapSet taps_;
  TapSet::Reader own_, inners_;
  Backend& backend_;
  std::deque<Recording*> waiting_;
  std::vector<float> values_;             // of the rows being converted
  std::vector<TokenId> last_tokens_;      // of the conversation that ended last
  std::vector<std::uint16_t> last_rows_;  // one for each of its tokens but the last
  std::uint64_t copied_rows_ = 0;
};

}  // namespace talon
