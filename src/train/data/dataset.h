#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "train/data/feature_rows.h"

namespace talon {

/// What all conversations of a data set have in common: which target answered, and which of its
/// vectors were recorded.
struct DatasetInfo {
  std::string model;         // the target's name, for people
  std::string model_sha256;  // of its weights file (of a folder: of all its files)
  int hidden = 0;
  int vocabulary = 0;
  /// What a row of features holds, `hidden` values each: the residual stream entering these layers,
  /// or FeatureTap::kFinalNorm (-1) for the vector that the output matrix reads. As recorded by
  /// `talon train data`: low, middle, high, kFinalNorm. Empty: tokens only.
  std::vector<int> taps;
  FeatureType features = FeatureType::f16;
  std::string fingerprint = {};  // of the target (model/load/fingerprint.h); empty: not known

  std::size_t row_values() const { return taps.size() * static_cast<std::size_t>(hidden); }
};

/// One conversation in a data set. Views live as long as the data set.
struct Conversation {
  std::span<const TokenId> tokens;  // prompt, then response (its end token included)
  int response_begin = 0;           // index of the first token of the response; at least 1
  double temperature = 0;           // of the response
  std::string source;               // of the prompt
  FeatureRows format;               // of the rows
  /// tokens.size() - 1 rows: row i is the target's row of tokens[i], the one that produced
  /// tokens[i + 1]. Empty without features.
  std::span<const std::byte> features;

  int rows() const { return features.empty() ? 0 : static_cast<int>(tokens.size()) - 1; }
  /// As FeatureRows::decode().
  void copy_row(int row, std::size_t first, std::span<std::uint16_t> out) const {
    const std::size_t bytes = format.row_bytes();
    format.decode(features.subspan(static_cast<std::size_t>(row) * bytes, bytes), first, out);
  }
};

/// What can be known of a conversation without reading it.
struct ConversationSize {
  int tokens = 0;
  int response_begin = 0;
  double temperature = 0;
  int response_tokens() const { return tokens - response_begin; }
};

/// Conversations written by `talon train data` (docs/formats.md), in one or more folders of the
/// same target and taps; mapped, so they may be larger than memory. May be opened while they are
/// still being written: it holds what was whole at that moment. Const members may be called from
/// several threads.
class Dataset {
 public:
  /// Throws Error naming the folder or shard, the place and the reason: no manifest, folders of
  /// different targets or taps, a shard of another run, a damaged record header. A record cut off
  /// at the end of a shard is left out: it is still being written, or its writer was killed.
  explicit Dataset(const std::vector<std::filesystem::path>& folders);
  explicit Dataset(const std::filesystem::path& folder)
      : Dataset(std::vector<std::filesystem::path>{folder}) {}
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  const DatasetInfo& info() const;
  /// Number of conversations. Their order is that of their names, the same in every process that
  /// sees the same files.
  std::size_t size() const;
  std::uint64_t tokens() const;
  std::uint64_t response_tokens() const;

  ConversationSize size_of(std::size_t index) const;
  /// Checks its checksum and that its tokens belong to the vocabulary. Throws Error naming shard
  /// and place if it is damaged.
  Conversation read(std::size_t index) const;
  /// All indices in an order that depends on `seed` alone (and on the number of conversations).
  std::vector<std::size_t> shuffled(std::uint64_t seed) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
