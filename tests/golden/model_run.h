#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/target.h"

namespace talon {

/// A model on one backend, with a cache for one sequence.
class ModelRun {
 public:
  /// Loads `path`; the cache holds at most `context` positions.
  ModelRun(const std::filesystem::path& path, std::unique_ptr<Backend> backend, KvType kv,
           int context, std::vector<FeatureTap> taps = {}, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  Backend& backend() { return *backend_; }

  using RowVisitor = std::function<void(int row, std::span<const float> logits)>;
  /// Runs the model over `ids` from an empty cache and shows the logits of rows `first` ..
  /// ids.size() - 1.
  void run(std::span<const TokenId> ids, int first, const RowVisitor& visit);

  /// The taps of all rows, [ids.size(), feature_width].
  std::vector<float> features(std::span<const TokenId> ids);

 private:
  std::unique_ptr<Backend> backend_;
  Model model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Target> target_;
};

/// What a row of logits says, in double.
struct RowSummary {
  double log_sum_exp = 0, mean = 0, deviation = 0, smallest = 0;
  TokenId best = 0;
  double margin = 0;  // of the best over the second
};
RowSummary summarise(std::span<const float> logits);

}  // namespace talon
