#include "train/policy/policy_network.h"

#include <cmath>

#include "core/error.h"
#include "tree/policies/radar_network.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kBlocks = 2;
constexpr auto kRadarState = static_cast<std::int64_t>(RadarNetwork::kState);

Tensor dense(const ParameterStore& parameters, const std::string& name, const Tensor& x) {
  return at::linear(x, parameters[name + ".weight"].value, parameters[name + ".bias"].value);
}

}  // namespace

std::vector<ParameterStore::Shape> parameter_shapes(const LengthShape& shape) {
  std::vector<ParameterStore::Shape> shapes = {{"in.weight", {shape.width, shape.inputs}},
                                               {"in.bias", {shape.width}}};
  for (int i = 0; i < kBlocks; ++i) {
    shapes.push_back({fmt::format("blocks.{}.weight", i), {shape.width, shape.width}});
    shapes.push_back({fmt::format("blocks.{}.bias", i), {shape.width}});
  }
  shapes.push_back({"out.weight", {shape.outputs, shape.width}});
  shapes.push_back({"out.bias", {shape.outputs}});
  return shapes;
}

Tensor predict_length(const ParameterStore& parameters, const Tensor& x) {
  Tensor y = at::silu(dense(parameters, "in", x));
  for (int i = 0; i < kBlocks; ++i)
    y = y + at::silu(dense(parameters, fmt::format("blocks.{}", i), y));
  return dense(parameters, "out", y);
}

std::vector<ParameterStore::Shape> radar_parameter_shapes(std::int64_t width) {
  return {{"lstm.weight_ih_l0", {4 * width, kRadarState}},
          {"lstm.weight_hh_l0", {4 * width, width}},
          {"lstm.bias_ih_l0", {4 * width}},
          {"lstm.bias_hh_l0", {4 * width}},
          {"mlp.0.weight", {width, width + kRadarState}},
          {"mlp.0.bias", {width}},
          {"mlp.3.weight", {2, width}},
          {"mlp.3.bias", {2}}};
}

Tensor radar_stop_logit(const ParameterStore& parameters, const Tensor& states, double dropout) {
  const auto value = [&](const char* name) { return parameters[name].value; };
  const Tensor from_hidden = value("lstm.weight_hh_l0");
  Tensor h = at::zeros({states.size(0), from_hidden.size(1)}, states.options());
  Tensor c = h;
  std::vector<Tensor> logits;
  for (std::int64_t step = 0; step < states.size(1); ++step) {
    const Tensor state = states.select(1, step);
    const auto gates = (at::linear(state, value("lstm.weight_ih_l0"), value("lstm.bias_ih_l0")) +
                        at::linear(h, from_hidden, value("lstm.bias_hh_l0")))
                           .chunk(4, 1);
    c = at::sigmoid(gates[1]) * c + at::sigmoid(gates[0]) * at::tanh(gates[2]);
    h = at::sigmoid(gates[3]) * at::tanh(c);
    Tensor between = at::relu(dense(parameters, "mlp.0", at::cat({h, state}, 1)));
    if (dropout > 0) between = at::dropout(between, dropout, true);
    const Tensor both = dense(parameters, "mlp.3", between);
    logits.push_back(both.select(1, 0) - both.select(1, 1));
  }
  return at::stack(logits, 1);
}

void set_random_values(ParameterStore& parameters) {
  const torch::NoGradGuard no_gradient;
  std::int64_t inputs = 1;
  for (const std::string& name : parameters.names()) {
    const Tensor& value = parameters[name].value;
    if (value.dim() == 2) inputs = value.size(1);  // a bias follows its matrix
    const double most = 1 / std::sqrt(static_cast<double>(inputs));
    parameters.set(name, (at::rand_like(value) * 2 - 1) * most);
  }
  parameters.refresh_low();
}

}  // namespace talon
