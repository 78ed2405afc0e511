#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "draft/coupling/coupling.h"

namespace talon {

/// Rows of what requests do to the logits of a draft list (LogitChanges), made where one is asked
/// for and kept for the next rounds. Of many requests the rows longest unused are made anew. Has no
/// memory of the backend before the first.
class ShiftRows {
 public:
  /// target_token: of each token of the draft list, in any order; empty: the same. Borrowed.
  ShiftRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token)
      : backend_(backend), vocabulary_(vocabulary), target_token_(target_token) {}

  /// [1, vocabulary]: `scale` times what is added to the logits of the place. Valid until the next
  /// call, and for all operations asked for before it. REQUIRES: place.changes.
  View row_of(const DraftPlace& place, float scale);

 private:
  struct Slot {
    LogitChanges changes;
    bool is_early = false;
    float scale = 0;
    std::uint64_t used = 0;  // when; 0: never
  };
  static constexpr std::size_t kSlots = 8;
  void fill(const Slot& slot, const View& row);

  Backend& backend_;
  int vocabulary_;
  std::span<const TokenId> target_token_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t asked_ = 0;
  Buffer rows_;                // [kSlots, vocabulary], once one was asked for
  std::vector<float> values_;  // of a row
};

}  // namespace talon
