#include "sample/token_weights.h"

#include <algorithm>

#include "core/error.h"
#include "sample/weigh_units.h"

namespace talon {

std::span<const TokenWeigher> token_weighers() {
  // __builtin_cpu_supports asks XGETBV too: it says no where the system does not save the
  // registers.
  static const TokenWeigher kWeighers[] = {
#if defined(__x86_64__)
    {"avx512",
     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl"),
     sample::weigh_avx512},
    {"avx2", __builtin_cpu_supports("avx2") != 0, sample::weigh_avx2},
#endif
    {"portable", true, sample::weigh_portable}
  };
  return kWeighers;
}

void token_weights(std::span<const float> logits, float largest, double temperature,
                   std::span<double> weights) {
  expects(weights.size() == logits.size(), "a weight for every logit");
  static const TokenWeigher& best =
      *std::ranges::find_if(token_weighers(), &TokenWeigher::supported);
  best.weigh(logits.data(), largest, temperature, static_cast<int>(logits.size()), weights.data());
}

}  // namespace talon
