#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "draft/drafter.h"

namespace talon {

/// What a stage keeps of one sequence.
struct StageMemory {
  std::unique_ptr<DraftState> state;
  int seen = 0;  // tokens of the text that the stage has observed
  // Of the model's rows from that of the newest token seen on, which may become text: the first
  // `rows` of [most rows, feature width].
  Buffer features;
  int rows = 0;
};

/// What a stage is made for.
struct StageTraits {
  int feature_width = 0;    // of the model's rows, with the taps of the stage
  int most_rows = 0;        // of the model that one draft has
  bool same_tokens = true;  // as the target's
};

/// What the model drafts next.
struct StageTask {
  const DraftJob* job = nullptr;
  bool races = false;  // as far as the model itself looks at the noise
  int most = 0;        // tokens to guess
};

/// The stage of a draft model (arXiv:2308.04623, docs/methods.md 4): a drafter that guesses what
/// the model will draft, in the model's own tokens. To a head the model is what a target is to the
/// heads of targets: its rows give the features that the head taps.
class ModelStage {
 public:
  ModelStage(std::unique_ptr<Drafter> drafter, Backend& backend, const StageTraits& traits);

  bool reads_features() const { return traits_.feature_width > 0; }
  /// How many first rows of a text the model may take from earlier texts of its owner: those whose
  /// features the stage can do without.
  int most_known(std::span<const TokenId> text, const TextOwner& owner) const;
  /// A text begins, of whose rows the model took the `known` first ones.
  void begin(StageMemory& memory, std::span<const TokenId> text, int known,
             const TextOwner& owner) const;
  /// The model has the first `rows` rows of the text and no others.
  void follow(StageMemory& memory, std::span<const TokenId> text, int rows) const;
  /// The model has run rows of the text from `first` on, but not that of its newest token.
  void read(StageMemory& memory, std::span<const TokenId> text, int first,
            const View& features) const;
  /// The likeliest path of what the stage proposes after the text. It is told of the draws what the
  /// model itself knows; where the model's tokens are not the target's, neither places nor noise
  /// are, and it guesses as if for a greedy text. REQUIRES: all rows but the newest token's were
  /// read, if it reads features.
  std::vector<TokenId> guess(StageMemory& memory, std::span<const TokenId> text,
                             const StageTask& task) const;
  /// The model has run the row of the newest token, or rows of drafts behind it.
  void note(StageMemory& memory, const View& features) const;
  /// Of the model's rows the first `rows` are left.
  void cut(StageMemory& memory, int rows) const;

 private:
  void observe(StageMemory& memory, std::span<const TokenId> news, const View& features) const;

  std::unique_ptr<Drafter> drafter_;
  Backend& backend_;
  StageTraits traits_;
};

}  // namespace talon
