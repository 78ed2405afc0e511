#include "backend/reference/reference_math.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace talon::reference {

double dot(const double* a, const double* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double lane[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] += a[i + j] * b[i + j];
  }
  for (; i < count; ++i) lane[0] += a[i] * b[i];
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

void rms_norm(std::span<double> x, const float* weight, double epsilon) {
  const double mean_square = dot(x.data(), x.data(), x.size()) / static_cast<double>(x.size());
  const double scale = 1.0 / std::sqrt(mean_square + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * scale * weight[i];
}

void softmax(std::span<double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& value : x) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (double& value : x) value /= sum;
}

void layer_norm(std::span<double> x, const float* weight, const float* bias, double epsilon) {
  const auto count = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const double value : x) sum += value;
  const double mean = sum / count;
  for (const double value : x) squares += (value - mean) * (value - mean);
  const double factor = 1.0 / std::sqrt(squares / count + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - mean) * factor * weight[i] + (bias ? bias[i] : 0.0F);
  }
}

double transform(InputTransform transform, double a, double b) {
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  const auto gelu_tanh = [](double x) {
    const double root = std::sqrt(2 / std::numbers::pi);
    return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
  };
  switch (transform) {
    case InputTransform::silu_gate:
      return silu_gate(a, b);
    case InputTransform::gelu_tanh_gate:
      return gelu_tanh(a) * b;
    case InputTransform::clamped_swiglu: {
      const double gate = std::min(a, double{kSwigluLimit});
      const double up = std::clamp(b, -double{kSwigluLimit}, double{kSwigluLimit});
      return (up + 1) * gate * sigmoid(double{kSwigluSlope} * gate);
    }
    case InputTransform::sigmoid_gate:
      return sigmoid(a) * b;
    case InputTransform::gelu_tanh:
      return gelu_tanh(a);
    case InputTransform::gelu_erf:
      return 0.5 * a * (1 + std::erf(a / std::numbers::sqrt2));
    case InputTransform::relu_squared:
      return std::max(a, 0.0) * std::max(a, 0.0);
    default:
      return a;
  }
}

double transform(const LinearArgs& args, double a, double b) {
  return args.transform == InputTransform::xielu ? xielu(args.xielu, a)
                                                 : transform(args.transform, a, b);
}

double xielu(const Xielu& function, double x) {
  const double linear = double{function.beta} * x;
  if (x > 0) return double{function.positive} * x * x + linear;
  const double bent = std::expm1(std::min(x, double{function.limit})) - x;
  return bent * double{function.negative} + linear;
}

double silu_gate(double gate, double up) { return gate / (1.0 + std::exp(-gate)) * up; }

}  // namespace talon::reference
