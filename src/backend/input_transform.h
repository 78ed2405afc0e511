#pragma once

namespace talon {

/// What happens to the input of linear() on its way in. The gates read [rows, 2 * cols], a first
/// half a and a second half b.
enum class InputTransform {
  none,
  rms_norm,        // x / rms(x) * norm
  layer_norm,      // (x - mean(x)) / deviation(x) * norm + norm_bias
  silu_gate,       // silu(a) * b
  gelu_tanh_gate,  // gelu(a) * b, by its tanh formula
  clamped_swiglu,  // with g = min(a, 7), u = clamp(b, -7, 7): (u + 1) * g / (1 + e^(-1.702 g))
  sigmoid_gate,    // b / (1 + e^-a)
  gelu_tanh,       // gelu(x), by its tanh formula
  gelu_erf,        // gelu(x) = x * (1 + erf(x / sqrt(2))) / 2
  relu_squared,    // max(x, 0)^2
  xielu,           // see Xielu
};
inline constexpr float kSwigluLimit = 7.0F;
inline constexpr float kSwigluSlope = 1.702F;
constexpr bool is_gate(InputTransform transform) {
  return transform == InputTransform::silu_gate || transform == InputTransform::gelu_tanh_gate ||
         transform == InputTransform::clamped_swiglu || transform == InputTransform::sigmoid_gate;
}

/// xIELU (arXiv:2411.13010), a function of four numbers, which a layer may have of its own:
/// positive * x^2 + beta * x above 0, else (e^min(x, limit) - 1 - x) * negative + beta * x.
struct Xielu {
  float positive = 0.8F;
  float negative = 0.8F;
  float beta = 0.5F;
  float limit = -1e-6F;
};

}  // namespace talon
