#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"
#include "draft/coupling/coupling.h"
#include "draft/growth/tree_growth.h"
#include "draft/head/head_weights.h"
#include "draft/head/pair_runner.h"
#include "draft/output_head.h"

namespace talon {

/// The transformer of an EAGLE head: one layer, in heads that guess in parallel more. Owns the
/// activations; weights are borrowed.
class HeadNetwork : public PairRunner {
 public:
  /// positions: of the cache that the passes will name. window: none is the head's own.
  HeadNetwork(const HeadWeights& weights, const Coupling& coupling, int max_rows, int positions,
              std::optional<PairWindow> window = {});
  ~HeadNetwork() override;

  Backend& backend() const override;
  int max_rows() const override;
  int feature_width() const override;
  int hidden() const override;
  void forward(const HeadPass& pass) override;
  /// The `count` likeliest next tokens after each row of `features`, which are outputs of
  /// forward(). Any number of rows. places: where they stand (OutputHead).
  RowChildren top_children(const View& features, int count, std::span<const DraftPlace> places,
                           const GuideFeatures& guide = {});
  /// The logits of all of them (OutputHead).
  std::vector<float> logits(const View& features, const GuideFeatures& guide = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
