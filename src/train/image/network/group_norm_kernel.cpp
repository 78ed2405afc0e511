#include "train/image/network/group_norm_kernel.h"

#include <cmath>
#include <cstring>

// Half of a tokenizer's training would be spent in torch's separate passes of norm and silu.
// Compiled with flags of its own (CMakeLists.txt), for each instruction set that pays.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALON_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TALON_CLONES
#endif

// What is called within a clone must be compiled with it.
#define TALON_INLINE inline __attribute__((always_inline))

namespace talon {
namespace {

TALON_INLINE float wide(Bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
TALON_INLINE float wide(float x) { return x; }
TALON_INLINE double wide(double x) { return x; }

TALON_INLINE void put(Bf16& to, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  to = static_cast<Bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
TALON_INLINE void put(float& to, float value) { to = value; }
TALON_INLINE void put(double& to, double value) { to = value; }

/// e to the x, to 2e-7 of it: 2^k times a polynomial.
TALON_INLINE float exponential(float x) {
  const float bounded = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // rounds to a whole number
  std::int32_t whole;
  std::memcpy(&whole, &shifted, sizeof(whole));
  const float k = shifted - 12582912.0f;
  const float f = (bounded - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  const std::int32_t power = (whole - 0x4b400000 + 127) << 23;
  float scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}
TALON_INLINE double exponential(double x) { return std::exp(x); }

/// Loops over plain numbers, one after the other: compilers make vectors of these.
template <typename T, typename Wide>
TALON_INLINE void widen(const T* from, Wide* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = wide(from[i]);
}

template <typename Wide>
TALON_INLINE void silu(Wide* t, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) t[i] = t[i] / (1 + exponential(-t[i]));
}

template <typename T, typename Wide>
TALON_INLINE void forward(const T* x, T* y, const Wide* weight, const Wide* bias,
                          const GroupNormSizes& sizes, Wide& mean, Wide& scale, Wide* room) {
  const std::int64_t cells = sizes.cells, all_cells = sizes.channels * cells;
  widen(x, room, all_cells);
  Wide sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < all_cells; ++i) sum += room[i];
  const Wide middle = sum / static_cast<Wide>(all_cells);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < all_cells; ++i) squares += (room[i] - middle) * (room[i] - middle);
  const double variance = static_cast<double>(squares) / static_cast<double>(all_cells);
  mean = middle;
  scale = static_cast<Wide>(1 / std::sqrt(variance + sizes.epsilon));
  for (std::int64_t c = 0; c < sizes.channels; ++c) {
    Wide* row = room + c * cells;
    const Wide factor = scale * weight[c], offset = bias[c] - middle * factor;
#pragma omp simd
    for (std::int64_t i = 0; i < cells; ++i) row[i] = row[i] * factor + offset;
    if (sizes.silu) silu(row, cells);
    T* to = y + c * cells;
#pragma omp simd
    for (std::int64_t i = 0; i < cells; ++i) put(to[i], row[i]);
  }
}

template <typename Wide>
TALON_INLINE void silu_gradient(const Wide* n, Wide* d, Wide weight, Wide bias,
                                std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const Wide t = n[i] * weight + bias;
    const Wide s = 1 / (1 + exponential(-t));
    d[i] *= s * (1 + t * (1 - s));
  }
}

template <typename T, typename Wide>
TALON_INLINE void backward(const T* x, const T* dy, T* dx, const Wide* weight, const Wide* bias,
                           const GroupNormSizes& sizes, Wide mean, Wide scale, Wide* dweight,
                           Wide* dbias, Wide* room) {
  const std::int64_t cells = sizes.cells, all_cells = sizes.channels * cells;
  Wide *normed = room, *gradient = room + all_cells;
  widen(x, normed, all_cells);
  widen(dy, gradient, all_cells);
#pragma omp simd
  for (std::int64_t i = 0; i < all_cells; ++i) normed[i] = (normed[i] - mean) * scale;
  Wide all = 0, along = 0;  // sums of the normalised row's gradient, and of it times the row
  for (std::int64_t c = 0; c < sizes.channels; ++c) {
    const Wide* n = normed + c * cells;
    Wide* d = gradient + c * cells;
    if (sizes.silu) silu_gradient(n, d, weight[c], bias[c], cells);
    Wide sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t i = 0; i < cells; ++i) {
      sum += d[i];
      product += d[i] * n[i];
    }
    dbias[c] = sum;
    dweight[c] = product;
    all += sum * weight[c];
    along += product * weight[c];
  }
  all /= static_cast<Wide>(all_cells);
  along /= static_cast<Wide>(all_cells);
  for (std::int64_t c = 0; c < sizes.channels; ++c) {
    const Wide *n = normed + c * cells, *d = gradient + c * cells;
    T* to = dx + c * cells;
    const Wide w = weight[c];
#pragma omp simd
    for (std::int64_t i = 0; i < cells; ++i) put(to[i], scale * (d[i] * w - all - n[i] * along));
  }
}

TALON_CLONES void forward_bf16(const Bf16* x, Bf16* y, const float* weight, const float* bias,
                               const GroupNormSizes& sizes, float& mean, float& scale,
                               float* room) {
  forward(x, y, weight, bias, sizes, mean, scale, room);
}

TALON_CLONES void backward_bf16(const Bf16* x, const Bf16* dy, Bf16* dx, const float* weight,
                                const float* bias, const GroupNormSizes& sizes, float mean,
                                float scale, float* dweight, float* dbias, float* room) {
  backward(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}

}  // namespace

template <>
void normalise_group(const Bf16* x, Bf16* y, const float* weight, const float* bias,
                     const GroupNormSizes& sizes, float& mean, float& scale, float* room) {
  forward_bf16(x, y, weight, bias, sizes, mean, scale, room);
}
template <>
void normalise_group(const float* x, float* y, const float* weight, const float* bias,
                     const GroupNormSizes& sizes, float& mean, float& scale, float* room) {
  forward(x, y, weight, bias, sizes, mean, scale, room);
}
template <>
void normalise_group(const double* x, double* y, const double* weight, const double* bias,
                     const GroupNormSizes& sizes, double& mean, double& scale, double* room) {
  forward(x, y, weight, bias, sizes, mean, scale, room);
}

template <>
void normalise_group_backward(const Bf16* x, const Bf16* dy, Bf16* dx, const float* weight,
                              const float* bias, const GroupNormSizes& sizes, float mean,
                              float scale, float* dweight, float* dbias, float* room) {
  backward_bf16(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}
template <>
void normalise_group_backward(const float* x, const float* dy, float* dx, const float* weight,
                              const float* bias, const GroupNormSizes& sizes, float mean,
                              float scale, float* dweight, float* dbias, float* room) {
  backward(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}
template <>
void normalise_group_backward(const double* x, const double* dy, double* dx, const double* weight,
                              const double* bias, const GroupNormSizes& sizes, double mean,
                              double scale, double* dweight, double* dbias, double* room) {
  backward(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}

}  // namespace talon
