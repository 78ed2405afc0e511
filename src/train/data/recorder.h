#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/commit_listener.h"
#include "train/data/feature_rows.h"

namespace talon {

/// Rows of one text.
struct RecordedRows {
  std::vector<std::byte> bytes;  // FeatureRows, of taps * hidden values
  std::uint32_t saturated = 0;   // values beyond the half floats, stored as the largest
};

/// The rows of one sequence and, if it is a guided picture (SequenceRows::guidance), of its guide.
struct Recording {
  RecordedRows own, guide;
  std::string problem;  // why rows are missing; empty: none are
};

/// Records the target's rows of an engine's sequences: features cost no pass of their own.
/// Remembers the conversation that ended last: what a later prompt has in common with its
/// beginning, as that of a chat template, is copied from it and not run again. Pictures are run
/// whole, since their guides have beginnings of their own.
class Recorder : public CommitListener {
 public:
  /// Records `taps`, none of them: nothing. `backend` is the target's, borrowed.
  Recorder(std::vector<FeatureTap> taps, FeatureType type, Backend& backend, bool pictures = false);

  /// What was recorded of a sequence that has ended; call it once for each.
  Recording take(SequenceId sequence);
  std::uint64_t copied_rows() const { return copied_rows_; }  // of all sequences

  std::vector<FeatureTap> taps() const override { return taps_; }
  int remembers(std::span<const TokenId> text) override;
  void begin(SequenceId sequence, std::span<const TokenId> known) override;
  /// Throws Error for a row that holds NaN, and notes it in the recording.
  void committed(SequenceId sequence, const CommittedTokens& committed) override;
  void end(SequenceId sequence) override;

 private:
  struct Watched {
    std::vector<TokenId> tokens;
    Recording recording;
  };
  void record(const View& rows, RecordedRows& recorded);

  std::vector<FeatureTap> taps_;
  FeatureType type_;
  Backend& backend_;
  bool pictures_;
  std::map<SequenceId, Watched> watched_;
  std::vector<float> values_;         // of the rows being converted
  std::vector<TokenId> last_tokens_;  // of the conversation that ended last
  std::vector<std::byte> last_rows_;  // one for each of its tokens but the last
  std::uint64_t copied_rows_ = 0;
};

}  // namespace talon
