#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/feature_tap.h"
#include "core/types.h"
#include "model/cache/kv_cache.h"
#include "model/model.h"

namespace talon {

/// The rows that one sequence adds to a forward.
struct SequenceRows {
  KvSequence* sequence = nullptr;  // has room for tokens.size() rows
  std::span<const TokenId> tokens;
  std::span<const NodeId> parents;  // per row: the row it follows, -1: the committed text. Empty:
                                    // each row follows the one before
  enum class Logits { none, last, all } logits = Logits::all;
  // All rows, each of which follows the one before, will be kept: saves layers with a state from
  // running them again.
  bool kept = false;
  // Of a picture (ModelConfig::image) the tokens of its prompt, which turn alike; its cells turn by
  // their places. Negative: a text.
  int picture_prompt = -1;
  // [its first rows, hidden], row after row: what they are instead of the embeddings of their
  // tokens. Empty: none. The guide's rows have none.
  std::span<const float> vectors = {};
  // Of a sequence with a guide (KvSequence::pair): the logits are u + guidance * (c - u) in
  // float32, c its own and u the guide's. Its rows are run, too.
  float guidance = 1;
  // The logits of rows that see so many tokens or more are c.
  int guided_until = INT32_MAX;
};

struct ForwardResult {
  View logits;  // [sum of rows that asked, vocabulary]; valid until the next forward
  std::vector<int> first_logits_row;  // per SequenceRows
  std::vector<int> first_row;         // of all rows, those of guides last; per SequenceRows
  // [all rows, taps * hidden]; empty without taps; valid until the next forward
  View features;
  // [all rows]: how many experts no row before went to, over all layers; empty without experts;
  // valid until the next forward
  Indices first_uses = {};
  // Per SequenceRows: of all rows the first of its guide, -1 without one, and the row of its own
  // that this one is beside.
  std::vector<int> first_guide_row, rows_before_guide;

  /// Of `rows` of part `index` those of its guide beside them, counted from the first.
  std::vector<NodeId> rows_of_guide(std::size_t index, std::span<const NodeId> rows) const;
};

/// One pass of the target model over rows of any number of sequences. Owns the activations; weights
/// and cache are borrowed.
class Target {
 public:
  Target(const Model& model, KvCache& cache, int max_rows, std::vector<FeatureTap> taps = {});
  ~Target();

  const Model& model() const;
  KvCache& cache();
  int max_rows() const;
  int feature_width() const;

  /// Runs the model over all rows (at most max_rows in all, those of guides among them). The rows'
  /// keys and values lie in the cache as rows in flight of their sequences; the caller keep()s or
  /// drops them. Row-exact: a row's logits depend on its tokens alone.
  ForwardResult forward(std::span<const SequenceRows> batch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
