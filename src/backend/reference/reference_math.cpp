#include "backend/reference/reference_math.h"

#include <algorithm>
#include <cmath>

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

double silu_gate(double gate, double up) { return gate / (1.0 + std::exp(-gate)) * up; }

}  // namespace talon::reference
