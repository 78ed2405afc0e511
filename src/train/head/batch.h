#pragma once

#include <torch/types.h>

#include <vector>

#include "train/data/dataset.h"
#include "train/head/math/functions.h"

namespace talon {

/// Which vectors of a data set's rows are which.
struct FeatureLayout {
  int hidden = 0;
  int taps = 0;         // columns [0, taps * hidden): the residual streams, low to high
  int final_begin = 0;  // column of the vector that the output matrix reads
};
/// Throws Error when the data set does not hold the final vector.
FeatureLayout feature_layout(const DatasetInfo& info);

/// Several conversations, packed: pair i of a conversation is (target row i, token i + 1), which
/// predicts token i + 2. Only pairs whose prediction belongs to the response are queries. Rows are
/// padded to BatchOptions::multiple with zeros of weight 0 that belong to no sequence. Of models
/// that read tokens alone (BatchOptions::tokens_alone) the first token is a pair, too, without a
/// row.
struct Batch {
  std::vector<SequenceRange> sequences;
  torch::Tensor taps;        // [pairs, taps * hidden] f16, if options.with_taps; else
  torch::Tensor features;    // [pairs, hidden], the final vectors of the pairs' rows, or no columns
  torch::Tensor wanted;      // [queries, hidden]: the final vector that the query shall predict
  torch::Tensor pair_token;  // [pairs] i64: token i + 1
  torch::Tensor query_pair;  // [queries] i64: which pair a query is
  torch::Tensor position;    // [pairs] i64: i, or the row of its cell (BatchOptions::by_cell)
  /// Of unrolled step j, per query: its token i + 1 + j, and the row of `wanted` it shall predict;
  /// weight 0 where the conversation has ended.
  std::vector<torch::Tensor> step_token, step_wanted, step_weight;
  torch::Tensor temperature;  // [queries], at which the token of a row of `wanted` was drawn
  std::vector<TokenId> response_tokens;  // all of them, for the choice of loss tokens

  std::int64_t real_queries = 0;  // without the padding

  std::int64_t queries() const { return wanted.size(0); }
  std::int64_t pairs() const { return pair_token.size(0); }
};

struct BatchOptions {
  int steps = 1;
  bool with_taps = true;      // EAGLE-3's features, or the others'
  bool tokens_alone = false;  // of draft models: instead of either
  int most_tokens = 2048;     // of a conversation; the rest is cut off
  /// Pairs turn by the cell of their token, those of a picture's prompt alike (RopeConfig::
  /// grid_columns); else by their place.
  bool by_cell = false;
  /// Of the rows: matrix products of few shapes are compiled once by oneDNN, others each time.
  int multiple = 256;
};

/// Whether the conversation, cut to options.most_tokens, has anything to learn from.
bool usable(const ConversationSize& size, const BatchOptions& options);
/// Pairs that it adds to a batch, that of the first token not counted.
std::int64_t pairs_of(const ConversationSize& size, const BatchOptions& options);
/// Of the conversations that have anything to learn from.
std::int64_t usable_pairs(const Dataset& data, const BatchOptions& options);
/// REQUIRES: all conversations are usable(), at least one.
Batch pack_batch(const Dataset& data, const std::vector<std::size_t>& conversations,
                 const BatchOptions& options, torch::ScalarType wide, torch::Device device);
/// Adds uniform noise of at most `bound` to the features.
void add_noise(Batch& batch, double bound, std::uint64_t seed);

}  // namespace talon
