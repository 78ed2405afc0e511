#include "tree/policies/radar_network.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
/// In terms of the same exponential, which takes a third of the library's time.
float tangent(float x) { return 2 * sigmoid(2 * x) - 1; }

}  // namespace

RadarNetwork::RadarNetwork(const Checkpoint& file)
    : input_(read_dense(file, "lstm.weight_ih_l0", "lstm.bias_ih_l0", -1, kState)) {
  const int width = input_.outputs() / 4;
  hidden_ = read_dense(file, "lstm.weight_hh_l0", "lstm.bias_hh_l0", 4 * width, width);
  if (hidden_.outputs() != input_.outputs()) {
    fail("read lstm.weight_ih_l0: expected a multiple of four rows, found {}", input_.outputs());
  }
  first_ = read_dense(file, "mlp.0.weight", "mlp.0.bias", -1, width + static_cast<int>(kState));
  second_ = read_dense(file, "mlp.3.weight", "mlp.3.bias", 2, first_.outputs());
  file.check_whole();
}

RadarRun::RadarRun(const RadarNetwork& network)
    : network_(network),
      gates_(static_cast<std::size_t>(network.input_.outputs())),
      from_hidden_(gates_.size()),
      h_and_state_(gates_.size() / 4 + RadarNetwork::kState),
      c_(gates_.size() / 4),
      between_(static_cast<std::size_t>(network.first_.outputs())) {}

void RadarRun::begin_round() {
  std::fill(c_.begin(), c_.end(), 0.0F);
  has_hidden_ = false;
}

double RadarRun::stop_chance(std::span<const float> state) {
  const std::size_t width = c_.size();
  const auto h = std::span(h_and_state_).first(width);
  network_.input_.apply(state, gates_);
  if (has_hidden_) {
    network_.hidden_.apply(h, from_hidden_);
  } else {  // all zeros: three quarters of the weights need not be read
    std::copy_n(network_.hidden_.bias().begin(), from_hidden_.size(), from_hidden_.begin());
  }
  has_hidden_ = true;
  for (std::size_t i = 0; i < gates_.size(); ++i) gates_[i] += from_hidden_[i];
  for (std::size_t i = 0; i < width; ++i) {
    const float forget = sigmoid(gates_[width + i]);
    c_[i] = forget * c_[i] + sigmoid(gates_[i]) * tangent(gates_[2 * width + i]);
    h[i] = sigmoid(gates_[3 * width + i]) * tangent(c_[i]);
  }
  std::copy(state.begin(), state.end(), h_and_state_.begin() + static_cast<std::ptrdiff_t>(width));
  network_.first_.apply(h_and_state_, between_);
  for (float& value : between_) value = std::max(value, 0.0F);
  network_.second_.apply(between_, logits_);
  return 1 / (1 + std::exp(static_cast<double>(logits_[1]) - static_cast<double>(logits_[0])));
}

std::array<float, RadarNetwork::kState> radar_state(std::span<const float> path_log_p) {
  std::array<float, RadarNetwork::kState> state;
  state.fill(path_log_p.back());
  std::copy_n(path_log_p.begin(), std::min(state.size(), path_log_p.size()), state.begin());
  return state;
}

}  // namespace talon
