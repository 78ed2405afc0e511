#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/index_list.h"
#include "sample/logit_changes.h"

namespace talon {

/// Does to logits of a draft list what a text's penalties do to the target's. Only those of tokens
/// that the text has are moved: by way of the host, since what repetition makes of a logit depends
/// on its sign. Has no memory of the backend before the first.
class PenaltyRows {
 public:
  /// target_token: of each token of the draft list, in any order; empty: the same. Borrowed.
  PenaltyRows(Backend& backend, int vocabulary, std::span<const TokenId> target_token)
      : backend_(backend), vocabulary_(vocabulary), target_token_(target_token), places_(backend) {}

  /// logits: [rows, vocabulary], in place; `scale` times what TextPenalties subtracts is
  /// subtracted. Waits.
  void change(const View& logits, const TextPenalties& penalties, double scale);

 private:
  /// A token of the draft list that the text has.
  struct Known {
    std::int32_t place = 0;  // in the list
    std::size_t seen = 0;    // which of TextPenalties::all()
  };
  void find(const TextPenalties& penalties);

  Backend& backend_;
  int vocabulary_;
  std::span<const TokenId> target_token_;
  std::vector<std::int32_t> by_token_;  // places by their target_token, once a text has penalties
  std::vector<Known> known_;
  IndexList places_;  // of known_
  Buffer moved_;      // [1, rows * known tokens at least], once a text has penalties
  std::vector<float> values_;
};

}  // namespace talon
