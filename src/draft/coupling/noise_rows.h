#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "draft/coupling/coupling.h"

namespace talon {

/// Rows of Gumbel noise for the tokens of a draft list, one for each place that drafts stand at:
/// the noise that the target's draw there will race with. Beams share a row, later rounds find it
/// again, and of many sequences the rows longest unused are made anew. Noise is rough (float, 32
/// bits a token): trees may differ between instruction sets, texts cannot.
class NoiseRows {
 public:
  /// target_token: of each token of the draft list, in any order; empty: the same. rows: that are
  /// kept, at least as many as are wanted at once.
  NoiseRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token, int rows);

  /// Which row of view() holds T / beta times the noise of `place`. Valid until as many other
  /// places as there are rows were asked for. REQUIRES: place.races().
  std::int32_t row_of(const DraftPlace& place, const Coupling& coupling);
  View view() const { return rows_.view(); }

 private:
  struct Slot {
    WordStream words;
    float scale = 0;
    std::uint64_t used = 0;  // when; 0: never
  };
  void sort(std::span<const TokenId> target_token);
  void fill(int row);

  Backend& backend_;
  std::vector<Slot> slots_;
  std::uint64_t asked_ = 0;
  Buffer rows_;
  IndexBuffer tokens_;  // target_token, ascending; empty: the same
  // Of a list that is not ascending: where each of its tokens stands in tokens_, and a row in the
  // order of these. Else empty.
  IndexBuffer places_;
  Buffer ascending_;
};

}  // namespace talon
