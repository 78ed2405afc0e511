#pragma once

// Row operations in terms of the lanes_*.h of one instruction set, which the including unit has
// included before.
namespace talon::cpu {
namespace {

inline int lesser(int a, int b) { return a < b ? a : b; }
inline int greater(int a, int b) { return a > b ? a : b; }

/// e^x: 0 below -87.3, infinity above 88.7, NaN for NaN, exactly 1 at 0; relative error below 2e-7.
/// Cephes' expf: x = n ln 2 + r, a polynomial of degree 7 in r, then 2^n.
inline Floats exponential(Floats x) {
  const Floats lowest = broadcast(-87.33654F);
  const Floats clamped = smaller(broadcast(89.0F), larger(lowest, x));
  const Floats n = round_to_integers(multiply(clamped, broadcast(1.44269504F)));
  Floats r = fma(n, broadcast(-0.693359375F), clamped);
  r = fma(n, broadcast(2.12194440e-4F), r);
  Floats p = broadcast(1.9875691500e-4F);
  p = fma(p, r, broadcast(1.3981999507e-3F));
  p = fma(p, r, broadcast(8.3334519073e-3F));
  p = fma(p, r, broadcast(4.1665795894e-2F));
  p = fma(p, r, broadcast(1.6666665459e-1F));
  p = fma(p, r, broadcast(5.0000001201e-1F));
  p = fma(multiply(r, r), p, add(r, broadcast(1.0F)));
  return zero_below(scale_by_power(p, n), x, lowest);
}

/// e^x - 1 for x <= 0, near 0 as exact as elsewhere: the same steps, but for the sum with 1.
inline Floats exponential_less_one(Floats x) {
  const Floats clamped = larger(broadcast(-80.0F), x);
  const Floats n = round_to_integers(multiply(clamped, broadcast(1.44269504F)));
  Floats r = fma(n, broadcast(-0.693359375F), clamped);
  r = fma(n, broadcast(2.12194440e-4F), r);
  Floats p = broadcast(1.9875691500e-4F);
  p = fma(p, r, broadcast(1.3981999507e-3F));
  p = fma(p, r, broadcast(8.3334519073e-3F));
  p = fma(p, r, broadcast(4.1665795894e-2F));
  p = fma(p, r, broadcast(1.6666665459e-1F));
  p = fma(p, r, broadcast(5.0000001201e-1F));
  p = fma(multiply(r, r), p, r);
  const Floats power = scale_by_power(broadcast(1.0F), n);
  return fma(power, p, subtract(power, broadcast(1.0F)));
}

inline float exponential(float x) {
  float lanes[kLanes];
  store(lanes, exponential(broadcast(x)));
  return lanes[0];
}

/// 2^x for x <= 0: 2^-125 below -125, NaN for NaN, exactly 1 at 0; relative error below 1e-7. A
/// minimax polynomial of degree 6 over the half units around the nearest integer.
inline Floats power_of_two(Floats x) {
  const Floats rounder = broadcast(12582912.0F);  // 1.5 * 2^23: sums have no bits for a fraction
  const Floats clamped = larger(broadcast(-125.0F), x);
  const Floats shifted = add(clamped, rounder);
  const Floats f = subtract(clamped, subtract(shifted, rounder));
  Floats p = broadcast(1.5594678E-4F);
  p = fma(p, f, broadcast(1.3406643E-3F));
  p = fma(p, f, broadcast(9.6176928E-3F));
  p = fma(p, f, broadcast(5.5503103E-2F));
  p = fma(p, f, broadcast(2.4022652E-1F));
  p = fma(p, f, broadcast(6.9314724E-1F));
  p = fma(p, f, broadcast(1.0F));
  return add_to_exponent(p, shifted);
}

inline void rms_norm(const float* x, const float* weight, float epsilon, int n, float* out) {
  Floats squares = zero_floats();
  for (int i = 0; i < n; i += kLanes) {
    const Floats v = load_first(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const float mean = sum_of(squares) / static_cast<float>(n);
  const Floats factor = broadcast(1.0F / __builtin_sqrtf(mean + epsilon));
  for (int i = 0; i < n; i += kLanes) {
    const Floats v = multiply(load_first(x + i, n - i), factor);
    store_first(out + i, multiply(v, load_first(weight + i, n - i)), n - i);
  }
}

inline Floats silu(Floats x) {
  return divide(x, add(broadcast(1.0F), exponential(subtract(zero_floats(), x))));
}

inline void silu_gate(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const Floats gated = silu(load_first(gate + i, n - i));
    store_first(out + i, multiply(gated, load_first(up + i, n - i)), n - i);
  }
}

inline void silu_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) store_first(out + i, silu(load_first(x + i, n - i)), n - i);
}

inline void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int n,
                       float* out) {
  Floats sums = zero_floats();
  for (int i = 0; i < n; i += kLanes) sums = add(sums, load_first(x + i, n - i));
  const float mean = sum_of(sums) / static_cast<float>(n);
  float ones[kLanes];
  store(ones, broadcast(1.0F));
  Floats squares = zero_floats();
  for (int i = 0; i < n; i += kLanes) {
    // Lanes past the end stay zero.
    const Floats means = multiply(broadcast(mean), load_first(ones, n - i));
    const Floats v = subtract(load_first(x + i, n - i), means);
    squares = fma(v, v, squares);
  }
  const float variance = sum_of(squares) / static_cast<float>(n);
  const Floats factor = broadcast(1.0F / __builtin_sqrtf(variance + epsilon));
  for (int i = 0; i < n; i += kLanes) {
    const Floats v = multiply(subtract(load_first(x + i, n - i), broadcast(mean)), factor);
    const Floats shift = bias == nullptr ? zero_floats() : load_first(bias + i, n - i);
    store_first(out + i, fma(v, load_first(weight + i, n - i), shift), n - i);
  }
}

inline Floats sigmoid(Floats x) {
  return divide(broadcast(1.0F), add(broadcast(1.0F), exponential(subtract(zero_floats(), x))));
}

inline void sigmoid_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    store_first(out + i, sigmoid(load_first(x + i, n - i)), n - i);
  }
}

/// 1 - 2 / (e^2x + 1): absolute error below 2e-7.
inline Floats hyperbolic_tangent(Floats x) {
  const Floats one = broadcast(1.0F);
  const Floats e = exponential(smaller(broadcast(44.0F), add(x, x)));
  return subtract(one, divide(broadcast(2.0F), add(e, one)));
}

/// x / (1 + e^-2z), z = sqrt(2 / pi) * (x + 0.044715 x^3).
inline Floats gelu_tanh(Floats x) {
  const Floats cube = multiply(multiply(x, x), x);
  const Floats z = multiply(broadcast(-1.595769122F), fma(broadcast(0.044715F), cube, x));
  return divide(x, add(broadcast(1.0F), exponential(z)));
}

/// max(x, 0) - |x| * erfc(|x| / sqrt(2)) / 2, with Abramowitz and Stegun 7.1.26 (error 1.5e-7).
inline Floats gelu_erf(Floats x) {
  const Floats size = absolute(x);
  const Floats u = multiply(size, broadcast(0.7071067812F));
  const Floats one = broadcast(1.0F);
  const Floats t = divide(one, fma(broadcast(0.3275911F), u, one));
  Floats p = broadcast(1.061405429F);
  p = fma(p, t, broadcast(-1.453152027F));
  p = fma(p, t, broadcast(1.421413741F));
  p = fma(p, t, broadcast(-0.284496736F));
  p = fma(p, t, broadcast(0.254829592F));
  const Floats e = multiply(multiply(p, t), exponential(subtract(zero_floats(), multiply(u, u))));
  return subtract(larger(zero_floats(), x), multiply(size, multiply(broadcast(0.5F), e)));
}

inline Floats relu_squared(Floats x) {
  const Floats positive = larger(zero_floats(), x);
  return multiply(positive, positive);
}

/// What bends below 0 is nothing above.
inline Floats xielu(const Xielu& function, Floats x) {
  const Floats zero = zero_floats();
  const Floats positive = larger(zero, x);
  const Floats below = exponential_less_one(smaller(broadcast(function.limit), x));
  const Floats bent = zero_below(subtract(below, x), subtract(zero, x), zero);
  const Floats curve = fma(broadcast(function.positive), multiply(positive, positive),
                           multiply(broadcast(function.negative), bent));
  return fma(broadcast(function.beta), x, curve);
}

inline Floats clamped_swiglu(Floats gate, Floats up) {
  const Floats limit = broadcast(kSwigluLimit);
  const Floats g = smaller(limit, gate);
  const Floats u = smaller(limit, larger(broadcast(-kSwigluLimit), up));
  const Floats gated = multiply(g, sigmoid(multiply(broadcast(kSwigluSlope), g)));
  return multiply(add(u, broadcast(1.0F)), gated);
}

inline Floats transformed(InputTransform transform, const Xielu& function, Floats a, Floats b) {
  switch (transform) {
    case InputTransform::silu_gate:
      return multiply(silu(a), b);
    case InputTransform::gelu_tanh_gate:
      return multiply(gelu_tanh(a), b);
    case InputTransform::clamped_swiglu:
      return clamped_swiglu(a, b);
    case InputTransform::sigmoid_gate:
      return multiply(sigmoid(a), b);
    case InputTransform::gelu_tanh:
      return gelu_tanh(a);
    case InputTransform::gelu_erf:
      return gelu_erf(a);
    case InputTransform::relu_squared:
      return relu_squared(a);
    case InputTransform::xielu:
      return xielu(function, a);
    default:
      return a;
  }
}

inline void transform_row(InputTransform transform, const Xielu& function, const float* a,
                          const float* b, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const Floats second = b == nullptr ? zero_floats() : load_first(b + i, n - i);
    const Floats first = load_first(a + i, n - i);
    store_first(out + i, transformed(transform, function, first, second), n - i);
  }
}

inline void soft_cap_row(const float* x, float cap, int n, float* out) {
  const Floats limit = broadcast(cap);
  for (int i = 0; i < n; i += kLanes) {
    const Floats capped = hyperbolic_tangent(divide(load_first(x + i, n - i), limit));
    store_first(out + i, multiply(limit, capped), n - i);
  }
}

inline void add_scaled_rows(const float* a, const float* b, float factor, int n, float* out) {
  const Floats f = broadcast(factor);
  for (int i = 0; i < n; i += kLanes) {
    store_first(out + i, fma(f, load_first(b + i, n - i), load_first(a + i, n - i)), n - i);
  }
}

inline void add_rows(const float* a, const float* b, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    store_first(out + i, add(load_first(a + i, n - i), load_first(b + i, n - i)), n - i);
  }
}

/// The largest of n values; NaN is passed over; -infinity if there is none.
inline float largest(const float* x, int n) {
  Floats best = broadcast(-__builtin_inff());
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) best = larger(load(x + i), best);
  float result = max_of(best);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

inline void softmax(const float* x, float temperature, int n, float* out) {
  const Floats top = broadcast(largest(x, n));
  const Floats divisor = broadcast(temperature);
  Floats sum = zero_floats();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats e = exponential(divide(subtract(load(x + i), top), divisor));
    store(out + i, e);
    sum = add(sum, e);
  }
  if (i < n) {
    float last[kLanes] = {};
    for (int j = 0; j < kLanes; ++j) last[j] = -__builtin_inff();
    for (int j = i; j < n; ++j) last[j - i] = x[j];
    const Floats e = exponential(divide(subtract(load(last), top), divisor));
    store_first(out + i, e, n - i);
    sum = add(sum, e);
  }
  const Floats total = broadcast(sum_of(sum));
  for (i = 0; i < n; i += kLanes) {
    store_first(out + i, divide(load_first(out + i, n - i), total), n - i);
  }
}

inline int find_above(const float* x, int begin, int n, float limit) {
  int i = begin;
  for (const Floats bound = broadcast(limit); i + kLanes <= n; i += kLanes) {
    const unsigned lanes = greater_lanes(load(x + i), bound);
    if (lanes != 0) return i + __builtin_ctz(lanes);
  }
  while (i < n && !(x[i] > limit)) ++i;
  return i;
}

/// The first index with x[i] == value, 0 if none.
inline int find_equal(const float* x, int n, float value) {
  int i = 0;
  for (const Floats wanted = broadcast(value); i + kLanes <= n; i += kLanes) {
    const unsigned lanes = equal_lanes(load(x + i), wanted);
    if (lanes != 0) return i + __builtin_ctz(lanes);
  }
  while (i < n && !(x[i] == value)) ++i;
  return i < n ? i : 0;
}

inline bool has_nan(const float* x, int n) {
  constexpr unsigned kAll = (1U << kLanes) - 1;
  unsigned numbers = kAll;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats v = load(x + i);
    numbers &= equal_lanes(v, v);
  }
  for (; i < n; ++i) {
    if (x[i] != x[i]) return true;
  }
  return numbers != kAll;
}

inline int argmax(const float* x, int n, float* top) {
  const float value = largest(x, n);
  *top = has_nan(x, n) ? __builtin_nanf("") : value;
  return find_equal(x, n, value);
}

inline void rotate(float* x, const float* cos_sin, float scale, int dim) {
  const int half = dim / 2;
  const Floats factor = broadcast(scale);
  for (int i = 0; i < half; i += kLanes) {
    const int n = half - i;
    const Floats cosine = load_first(cos_sin + i, n);
    const Floats sine = load_first(cos_sin + half + i, n);
    const Floats a = load_first(x + i, n);
    const Floats b = load_first(x + half + i, n);
    const Floats first = subtract(multiply(a, cosine), multiply(b, sine));
    const Floats second = add(multiply(b, cosine), multiply(a, sine));
    store_first(x + i, multiply(first, factor), n);
    store_first(x + half + i, multiply(second, factor), n);
  }
}

inline void store_half_row(const float* x, int n, std::uint16_t* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store_half(out + i, load(x + i));
  if (i == n) return;
  std::uint16_t last[kLanes];
  store_half(last, load_first(x + i, n - i));
  for (int j = i; j < n; ++j) out[j] = last[j - i];
}

}  // namespace
}  // namespace talon::cpu
