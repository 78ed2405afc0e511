#include "train/image/network/attention_kernel.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>

#include "core/philox.h"

// Attention of pictures, whose rows are few and all the same: in torch's separate passes it would
// take as long as all matrices of a layer together.
namespace talon {
namespace {

using kernel::exponential;
using kernel::put;
using kernel::wide;

constexpr std::int64_t kBlock = 64;  // queries at once; keys behind them are not looked at

/// c [m, n] = a b + beta c, of matrices whose rows lie `stride` numbers apart.
void multiply(const float* a, std::int64_t a_stride, bool a_turned, const float* b,
              std::int64_t b_stride, bool b_turned, float* c, std::int64_t c_stride, std::int64_t m,
              std::int64_t n, std::int64_t k, float beta) {
  dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', m, n, k, 1.0F, a, a_stride, b, b_stride,
             beta, c, c_stride);
}
void multiply(const double* a, std::int64_t a_stride, bool a_turned, const double* b,
              std::int64_t b_stride, bool b_turned, double* c, std::int64_t c_stride,
              std::int64_t m, std::int64_t n, std::int64_t k, double beta) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = beta == 0 ? 0 : beta * c[i * c_stride + j];
      for (std::int64_t l = 0; l < k; ++l) {
        sum += (a_turned ? a[l * a_stride + i] : a[i * a_stride + l]) *
               (b_turned ? b[j * b_stride + l] : b[l * b_stride + j]);
      }
      c[i * c_stride + j] = sum;
    }
  }
}

/// softmax of the first `seen` of a row's scores, the others 0; the logarithm of the sum.
template <typename Wide>
TALON_INLINE Wide softmax_row(Wide* scores, std::int64_t seen, std::int64_t all) {
  Wide largest = scores[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < seen; ++i) largest = scores[i] > largest ? scores[i] : largest;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < seen; ++i) {
    scores[i] = exponential(scores[i] - largest);
    sum += scores[i];
  }
  const Wide inverse = 1 / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < seen; ++i) scores[i] *= inverse;
  for (std::int64_t i = seen; i < all; ++i) scores[i] = 0;
  return largest + std::log(sum);
}
TALON_CLONES float softmax(float* scores, std::int64_t seen, std::int64_t all) {
  return softmax_row(scores, seen, all);
}
double softmax(double* scores, std::int64_t seen, std::int64_t all) {
  return softmax_row(scores, seen, all);
}

/// Scores become the softmax that they had, dp the gradient of the scores.
template <typename Wide>
TALON_INLINE void softmax_gradient_row(Wide* scores, Wide* dp, Wide log_sum, Wide along,
                                       std::int64_t seen, std::int64_t all) {
#pragma omp simd
  for (std::int64_t i = 0; i < seen; ++i) {
    scores[i] = exponential(scores[i] - log_sum);
    dp[i] = scores[i] * (dp[i] - along);
  }
  for (std::int64_t i = seen; i < all; ++i) scores[i] = dp[i] = 0;
}
TALON_CLONES void softmax_gradient(float* scores, float* dp, float log_sum, float along,
                                   std::int64_t seen, std::int64_t all) {
  softmax_gradient_row(scores, dp, log_sum, along, seen, all);
}
void softmax_gradient(double* scores, double* dp, double log_sum, double along, std::int64_t seen,
                      std::int64_t all) {
  softmax_gradient_row(scores, dp, log_sum, along, seen, all);
}

template <typename T, typename Wide>
void load(const T* from, const AttentionSizes& sizes, std::int64_t stride, Wide* to) {
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    for (std::int64_t i = 0; i < sizes.width; ++i)
      to[r * sizes.width + i] = wide(from[r * stride + i]);
  }
}

/// The rows turned by their angles, times `factor`.
template <typename T, typename Wide>
void load_turned(const T* from, const AttentionSizes& sizes, const Wide* cosine, const Wide* sine,
                 Wide factor, Wide* to) {
  const std::int64_t half = sizes.width / 2;
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const Wide *c = cosine + r * half, *s = sine + r * half;
    const T* x = from + r * sizes.stride;
    Wide* y = to + r * sizes.width;
    for (std::int64_t i = 0; i < half; ++i) {
      const Wide a = wide(x[i]) * factor, b = wide(x[half + i]) * factor;
      y[i] = a * c[i] - b * s[i];
      y[half + i] = b * c[i] + a * s[i];
    }
  }
}

/// The reverse of load_turned().
template <typename T, typename Wide>
void store_turned_back(const Wide* from, const AttentionSizes& sizes, const Wide* cosine,
                       const Wide* sine, Wide factor, T* to) {
  const std::int64_t half = sizes.width / 2;
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const Wide *c = cosine + r * half, *s = sine + r * half, *x = from + r * sizes.width;
    T* y = to + r * sizes.stride;
    for (std::int64_t i = 0; i < half; ++i) {
      const Wide a = x[i] * factor, b = x[half + i] * factor;
      put(y[i], a * c[i] + b * s[i]);
      put(y[half + i], b * c[i] - a * s[i]);
    }
  }
}

template <typename T, typename Wide>
void store(const Wide* from, std::int64_t rows, std::int64_t width, T* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < width; ++i) put(to[r * stride + i], from[r * width + i]);
  }
}

/// Places in the room of a head.
template <typename Wide>
struct Room {
  Wide *q, *k, *v;            // [rows, width]
  Wide *seen, *dq, *dk, *dv;  // the same
  Wide *scores, *dscores;     // [kBlock, rows]

  Room(const AttentionSizes& sizes, Wide* at) {
    for (Wide** place : {&q, &k, &v, &seen, &dq, &dk, &dv}) {
      *place = at;
      at += sizes.rows * sizes.width;
    }
    scores = at;
    dscores = at + kBlock * sizes.rows;
  }
};

template <typename Wide>
Wide inverse_root(std::int64_t width) {
  return static_cast<Wide>(1 / std::sqrt(static_cast<double>(width)));
}

}  // namespace

std::int64_t attention_room(const AttentionSizes& sizes) {
  return sizes.rows * (7 * sizes.width + 2 * kBlock);
}

template <typename T, typename Wide>
void attend_head(const T* q, const T* k, const T* v, T* out, Wide* log_sums, const Wide* cosine,
                 const Wide* sine, const AttentionSizes& sizes, Wide* room_of_head) {
  const Room<Wide> room(sizes, room_of_head);
  const std::int64_t d = sizes.width;
  load_turned(q, sizes, cosine, sine, inverse_root<Wide>(d), room.q);
  load_turned(k, sizes, cosine, sine, Wide{1}, room.k);
  load(v, sizes, sizes.stride, room.v);
  for (std::int64_t first = 0; first < sizes.rows; first += kBlock) {
    const std::int64_t count = std::min(kBlock, sizes.rows - first), keys = first + count;
    multiply(room.q + first * d, d, false, room.k, d, true, room.scores, keys, count, keys, d, 0);
    for (std::int64_t r = 0; r < count; ++r)
      log_sums[first + r] = softmax(room.scores + r * keys, first + r + 1, keys);
    multiply(room.scores, keys, false, room.v, d, false, room.seen, d, count, d, keys, 0);
    store(room.seen, count, d, out + first * sizes.out_stride, sizes.out_stride);
  }
}

template <typename T, typename Wide>
void attend_head_backward(const T* q, const T* k, const T* v, const T* out, const T* dout, T* dq,
                          T* dk, T* dv, const Wide* log_sums, const Wide* cosine, const Wide* sine,
                          const AttentionSizes& sizes, Wide* room_of_head) {
  const Room<Wide> room(sizes, room_of_head);
  const std::int64_t d = sizes.width, all = sizes.rows * d;
  load_turned(q, sizes, cosine, sine, inverse_root<Wide>(d), room.q);
  load_turned(k, sizes, cosine, sine, Wide{1}, room.k);
  load(v, sizes, sizes.stride, room.v);
  Wide* dseen = room.seen;
  load(dout, sizes, sizes.out_stride, dseen);
  std::fill_n(room.dk, all, Wide{0});
  std::fill_n(room.dv, all, Wide{0});
  for (std::int64_t first = 0; first < sizes.rows; first += kBlock) {
    const std::int64_t count = std::min(kBlock, sizes.rows - first), keys = first + count;
    const Wide *query = room.q + first * d, *gradient = dseen + first * d;
    multiply(query, d, false, room.k, d, true, room.scores, keys, count, keys, d, 0);
    multiply(gradient, d, false, room.v, d, true, room.dscores, keys, count, keys, d, 0);
    for (std::int64_t r = 0; r < count; ++r) {
      // The sum over keys of softmax times its gradient is dout . out.
      const T* seen = out + (first + r) * sizes.out_stride;
      Wide along = 0;
      for (std::int64_t i = 0; i < d; ++i) along += gradient[r * d + i] * wide(seen[i]);
      softmax_gradient(room.scores + r * keys, room.dscores + r * keys, log_sums[first + r], along,
                       first + r + 1, keys);
    }
    multiply(room.scores, keys, true, gradient, d, false, room.dv, d, keys, d, count, 1);
    multiply(room.dscores, keys, true, query, d, false, room.dk, d, keys, d, count, 1);
    multiply(room.dscores, keys, false, room.k, d, false, room.dq + first * d, d, count, d, keys,
             0);
  }
  store_turned_back(room.dq, sizes, cosine, sine, inverse_root<Wide>(d), dq);
  store_turned_back(room.dk, sizes, cosine, sine, Wide{1}, dk);
  store(room.dv, sizes.rows, d, dv, sizes.stride);
}

template <typename Wide>
void drop_numbers(const Wide* from, Wide* to, std::int64_t first, std::int64_t count,
                  std::uint32_t least, Wide factor, std::uint64_t seed) {
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  for (std::int64_t i = 0; i < count; i += 8) {
    const auto block = static_cast<std::uint64_t>(first + i) / 8;
    const auto words = philox4x32(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    for (std::int64_t j = 0; j < std::min<std::int64_t>(8, count - i); ++j) {
      const std::uint32_t bits = words[static_cast<std::size_t>(j / 2)] >> (16 * (j % 2)) & 0xffff;
      to[i + j] = bits >= least ? from[i + j] * factor : 0;
    }
  }
}

#define TALON_ATTENTION(T, Wide)                                                                   \
  template void attend_head(const T*, const T*, const T*, T*, Wide*, const Wide*, const Wide*,     \
                            const AttentionSizes&, Wide*);                                         \
  template void attend_head_backward(const T*, const T*, const T*, const T*, const T*, T*, T*, T*, \
                                     const Wide*, const Wide*, const Wide*, const AttentionSizes&, \
                                     Wide*);
TALON_ATTENTION(Bf16, float)
TALON_ATTENTION(float, float)
TALON_ATTENTION(double, double)
#undef TALON_ATTENTION
template void drop_numbers(const float*, float*, std::int64_t, std::int64_t, std::uint32_t, float,
                           std::uint64_t);
template void drop_numbers(const double*, double*, std::int64_t, std::int64_t, std::uint32_t,
                           double, std::uint64_t);

}  // namespace talon
