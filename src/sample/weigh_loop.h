#pragma once

#include <cstdint>

// What every weigh_*.cpp compiles for its instruction set: in an unnamed namespace, so that the
// linker cannot take one set's copy for another's.
namespace talon::sample {
namespace {

/// e^x for x <= 0, 0 below -708, exactly 1 at 0; relative error below 1e-15. x = n ln 2 + r, a
/// Taylor polynomial of degree 12 in r, then 2^n. One lane: the compiler makes vectors of loops
/// over it.
inline double exponential(double x) {
  constexpr double kLowest = -708;
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52: sums have no bits for a fraction
  constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  const double clamped = x > kLowest ? x : kLowest;
  const double shifted = clamped * 1.44269504088896340736 + kRounder;
  const double n = shifted - kRounder;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  const std::uint64_t exponent = __builtin_bit_cast(std::uint64_t, shifted) << 52;
  const double power = __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, p) + exponent);
  return x > kLowest ? power : 0;
}

inline void weigh(const float* logits, float largest, double temperature, int count,
                  double* weights) {
  const auto top = static_cast<double>(largest);
  for (int i = 0; i < count; ++i) {
    weights[i] = exponential((static_cast<double>(logits[i]) - top) / temperature);
  }
}

}  // namespace
}  // namespace talon::sample
