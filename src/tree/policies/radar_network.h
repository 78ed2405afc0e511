#pragma once

#include <array>
#include <span>
#include <vector>

#include "tree/policies/dense.h"

namespace talon {

/// The weights of RADAR's policy network, arXiv:2512.14069: an LSTM over the states of a round (the
/// ten best cumulative log-probabilities of the beam, descending) and two layers on [its output;
/// the state]. Reads the layout of the official weights: lstm.weight_ih_l0, ..., mlp.0.weight, ...,
/// mlp.3.bias.
class RadarNetwork {
 public:
  static constexpr std::size_t kState = 10;

  explicit RadarNetwork(const Checkpoint& file);

 private:
  friend class RadarRun;
  Dense input_;   // to the four gates, in PyTorch's order: input, forget, cell, output
  Dense hidden_;  // to the same gates
  Dense first_;
  Dense second_;
};

/// The network over the rounds of one sequence. Borrows the weights.
class RadarRun {
 public:
  explicit RadarRun(const RadarNetwork& network);

  void begin_round();
  /// The chance that drafting should stop, after one more state.
  double stop_chance(std::span<const float> state);
  /// Of the last call: stop, continue.
  std::span<const float> logits() const { return logits_; }

 private:
  const RadarNetwork& network_;
  std::vector<float> gates_, from_hidden_, h_and_state_, c_, between_;
  std::array<float, 2> logits_{};
  bool has_hidden_ = false;  // h is not what a round begins with
};

/// The state of a beam of these scores, descending; a beam that is narrower than the network was
/// trained on repeats its last. REQUIRES: it has one.
std::array<float, RadarNetwork::kState> radar_state(std::span<const float> path_log_p);

}  // namespace talon
