#pragma once

#include <span>
#include <string_view>

namespace talon {

/// weights[i] = e^((logits[i] - largest) / temperature) with a relative error below 1e-15, exactly
/// 1 for the largest logit and 0 where the exponent is below -708: what a token is drawn by. With
/// the best instructions this processor has; the same bytes with all. REQUIRES: no NaN, `largest`
/// finite, temperature > 0, as many weights as logits.
void token_weights(std::span<const float> logits, float largest, double temperature,
                   std::span<double> weights);

/// token_weights() in the instructions of one set.
struct TokenWeigher {
  std::string_view instructions;
  bool supported = false;  // by this processor and system
  void (*weigh)(const float* logits, float largest, double temperature, int count,
                double* weights) = nullptr;
};
/// Best first; the last is always supported.
std::span<const TokenWeigher> token_weighers();

}  // namespace talon
