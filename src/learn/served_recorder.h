#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "engine/commit_listener.h"
#include "engine/request.h"
#include "train/data/shard.h"

namespace talon {

/// What a request bans and favours all the time, as SamplerOptions has it: drafters know of it.
struct ServedChanges {
  static constexpr std::size_t kMost = 64;  // that are told of in a record

  std::vector<TokenId> banned = {};
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  bool operator==(const ServedChanges&) const = default;
};

/// What is known of an answer beside its tokens.
struct ServedAnswer {
  std::vector<TokenId> prompt;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  double temperature = 0;  // 0 also with top_k = 1, which draws nothing
  bool races = true;       // drafts knew the noise, where there was some (DraftJob::races)
  ServedChanges changes;   // of many none: they would take more room than the text

  explicit ServedAnswer(const Request& request);
};

/// Where the tokens of a record come from, as Record::source says it: the noise that they raced
/// with, and where in their text the first of them stands.
struct ServedSource {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  int first = 0;
  bool races = true;  // drafts knew that noise
  ServedChanges changes = {};

  std::string text() const;
  /// Nothing for a record of another source. `races` is true where the text does not say.
  static std::optional<ServedSource> parse(const std::string& text);
};

/// Records the target's rows of the answers that a server gives. Nothing is run for it: rows of a
/// prompt that the cache remembers are copied from one of the last texts that begins alike; where
/// none does, the record begins behind them.
class ServedRecorder : public CommitListener {
 public:
  static constexpr std::size_t kMostTokens = 1024;    // of a record; what follows is left out
  static constexpr std::size_t kLeastAnswer = 4;      // tokens of an answer worth a record
  static constexpr std::size_t kBeginnings = 4;       // of the last texts, kept to copy from,
  static constexpr std::size_t kBeginningRows = 256;  // each so many rows

  /// `backend`: the target's, borrowed.
  ServedRecorder(std::vector<FeatureTap> taps, FeatureType type, Backend& backend);

  /// What was recorded of a sequence that has ended; nothing if it is too little. Call it once for
  /// each. Throws Error if a row held NaN.
  std::optional<Record> take(SequenceId sequence, const ServedAnswer& answer);

  std::vector<FeatureTap> taps() const override { return taps_; }
  int remembers(std::span<const TokenId> text) override { return static_cast<int>(text.size()); }
  void begin(SequenceId sequence, std::span<const TokenId> known) override;
  void committed(SequenceId sequence, const CommittedTokens& committed) override;
  void end(SequenceId sequence) override;

 private:
  /// Row i is that of tokens[i].
  struct Watched {
    int first = 0;  // where tokens[0] stands in the text
    std::vector<TokenId> tokens;
    std::vector<std::byte> rows;
    std::uint32_t saturated = 0;
    std::string problem;
  };
  struct Beginning {
    std::vector<TokenId> tokens;
    std::vector<std::byte> rows;
  };
  const Beginning* beginning_of(std::span<const TokenId> known) const;
  std::size_t rows_of(const Watched& watched) const;

  std::vector<FeatureTap> taps_;
  FeatureType type_;
  Backend& backend_;
  std::size_t row_bytes_ = 0;  // known with the first row
  std::map<SequenceId, Watched> watched_;
  std::deque<Beginning> beginnings_;
  std::vector<float> values_;  // of the rows being converted
};

}  // namespace talon
