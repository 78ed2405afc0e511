#pragma once

#include <vector>

#include "backend/backend.h"
#include "model/config/config.h"

namespace talon {

/// Columns of a head that turn by `rope`, which is that of layers of this kind.
int rope_width(const RopeConfig& rope, const ModelConfig& config, LayerPlan::Rope kind);

/// Columns of a head of `head_dim` that turn.
int turning_columns(const RopeConfig& rope, int head_dim);

/// What Llama 3's scaling divides the frequency of each pair of `width` columns by, as GGUF files
/// keep it.
std::vector<float> llama3_divisors(const RopeConfig& rope, int width);

/// Phi's factors of frequencies depend on the length of texts. They are chosen once, by the context
/// that will be used: a text's earlier rows do not change as it grows.
void choose_divisors(RopeConfig& rope, int context);

/// The angles of rotary position embedding under its length scalings.
class RopeAngles {
 public:
  /// Of the first `width` columns of a head.
  RopeAngles(const RopeConfig& rope, int width);
  /// cos then sin of rows (of text, positions) [first, first + count): [count * width] (see
  /// AttentionArgs::rope).
  std::vector<float> rows(int first, int count) const;

 private:
  double angle(int row, std::size_t pair) const;

  std::vector<double> frequency_;  // of each pair
  double amplitude_ = 1;
  int grid_columns_ = 0;
  bool prompt_vanishes_ = false;
};

/// The rows of a model's angles in a backend's memory, computed as far as sequences have come: a
/// model that allows a million positions costs what is used of them. The memory stays where it is.
class RopeTable {
 public:
  /// positions: the most that will ever be asked for.
  RopeTable(Backend& backend, const RopeConfig& rope, int width, int positions);
  /// All rows, of which at least the first `positions` hold their angles.
  View reach(int positions);

 private:
  Backend& backend_;
  RopeAngles angles_;
  Buffer table_;
  int filled_ = 0;
};

}  // namespace talon
