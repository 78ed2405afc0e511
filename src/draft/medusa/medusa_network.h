#pragma once

#include <climits>
#include <memory>
#include <vector>

#include "draft/medusa/medusa_weights.h"
#include "draft/output_head.h"

namespace talon {

/// Runs Medusa heads. Owns the activations; weights are borrowed.
class MedusaNetwork {
 public:
  static constexpr int kMostRows = 32;
  /// heads: that are run, the first; at most as many as there are.
  MedusaNetwork(const MedusaWeights& weights, const Coupling& coupling, int heads = INT_MAX);

  /// The `count` likeliest tokens that each of them guesses from each row of `features` [at most
  /// kMostRows, hidden], by head. first_places: where the first head's guesses stand, per row.
  std::vector<RowChildren> guess(const View& features, int count,
                                 std::span<const DraftPlace> first_places);

 private:
  View hidden_of(std::size_t head, int rows) const;
  void run_blocks(const View& features, const MedusaWeights::Head& head, const View& out);

  const MedusaWeights& weights_;
  Backend& backend_;
  std::size_t heads_;                // that are run
  std::vector<OutputHead> outputs_;  // per head, or one for all
  Buffer features_;                  // [kMostRows, hidden]
  Buffer hidden_;                    // [heads * kMostRows, hidden]
  Buffer inner_;                     // [kMostRows, hidden]
  std::uint64_t replay_owner_ = new_replay_owner();
};

}  // namespace talon
