#include "train/image/network/group_norm_kernel.h"

#include <cmath>

// Half of a tokenizer's training would be spent in torch's separate passes of norm and silu.
namespace talon {
namespace {

using kernel::exponential;
using kernel::put;
using kernel::wide;

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
TALON_CLONES void forward_f32(const float* x, float* y, const float* weight, const float* bias,
                              const GroupNormSizes& sizes, float& mean, float& scale, float* room) {
  forward(x, y, weight, bias, sizes, mean, scale, room);
}

TALON_CLONES void backward_bf16(const Bf16* x, const Bf16* dy, Bf16* dx, const float* weight,
                                const float* bias, const GroupNormSizes& sizes, float mean,
                                float scale, float* dweight, float* dbias, float* room) {
  backward(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}
TALON_CLONES void backward_f32(const float* x, const float* dy, float* dx, const float* weight,
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
  forward_f32(x, y, weight, bias, sizes, mean, scale, room);
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
  backward_f32(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}
template <>
void normalise_group_backward(const double* x, const double* dy, double* dx, const double* weight,
                              const double* bias, const GroupNormSizes& sizes, double mean,
                              double scale, double* dweight, double* dbias, double* room) {
  backward(x, dy, dx, weight, bias, sizes, mean, scale, dweight, dbias, room);
}

}  // namespace talon
