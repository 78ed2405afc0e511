#pragma once

#include <cstddef>
#include <cstdint>

// Sixteen floats or integers as arrays: the operations that loops_*.h is written in, with the
// results of lanes_avx512.h to the bit. See there for what each does.
namespace talon::cpu {
namespace {

constexpr int kMaxRows = 1;  // rows multiplied at once
constexpr int kMaxFloatRows = 1;
constexpr int kUsualFloatRows = kMaxFloatRows;
constexpr int tiles_at_once(int) { return 1; }
constexpr int kQueryBatch = 1;
constexpr int kVectorBatch = 1;

struct Floats {
  float v[kLanes];
};
struct Ints {
  std::int32_t v[kLanes];
};

template <typename Result, typename Function>
inline Result each_lane(Function function) {
  Result result;
  for (int i = 0; i < kLanes; ++i) result.v[i] = function(i);
  return result;
}
template <typename Function>
inline Floats floats(Function function) {
  return each_lane<Floats>(function);
}

inline Floats broadcast(float x) {
  return floats([=](int) { return x; });
}
inline Floats zero_floats() { return broadcast(0.0F); }
inline Floats load_first(const float* p, int n) {
  return floats([=](int i) { return i < n ? p[i] : 0.0F; });
}
inline Floats load(const float* p) { return load_first(p, kLanes); }
inline void store_first(float* p, const Floats& x, int n) {
  for (int i = 0; i < kLanes && i < n; ++i) p[i] = x.v[i];
}
inline void store(float* p, const Floats& x) { store_first(p, x, kLanes); }
inline Floats add(const Floats& a, const Floats& b) {
  return floats([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats subtract(const Floats& a, const Floats& b) {
  return floats([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats multiply(const Floats& a, const Floats& b) {
  return floats([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats divide(const Floats& a, const Floats& b) {
  return floats([&](int i) { return a.v[i] / b.v[i]; });
}
inline Floats fma(const Floats& a, const Floats& b, const Floats& c) {
  return floats([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline float larger(float a, float b) { return a > b ? a : b; }
inline Floats larger(const Floats& a, const Floats& b) {
  return floats([&](int i) { return larger(a.v[i], b.v[i]); });
}
inline Floats smaller(const Floats& a, const Floats& b) {
  return floats([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats absolute(const Floats& a) {
  return floats([&](int i) { return __builtin_fabsf(a.v[i]); });
}
inline Floats zero_below(const Floats& x, const Floats& keep, const Floats& limit) {
  return floats([&](int i) { return keep.v[i] < limit.v[i] ? 0.0F : x.v[i]; });
}
inline unsigned greater_lanes(const Floats& a, const Floats& b) {
  unsigned mask = 0;
  for (unsigned i = 0; i < kLanes; ++i) mask |= static_cast<unsigned>(a.v[i] > b.v[i]) << i;
  return mask;
}
inline unsigned equal_lanes(const Floats& a, const Floats& b) {
  unsigned mask = 0;
  for (unsigned i = 0; i < kLanes; ++i) mask |= static_cast<unsigned>(a.v[i] == b.v[i]) << i;
  return mask;
}

inline float sum_of(Floats x) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
  }
  return x.v[0];
}
inline float max_of(Floats x) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = larger(x.v[i], x.v[i + half]);
  }
  return x.v[0];
}

inline std::int32_t bits_of(float x) {
  std::int32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

inline float largest_size(const Floats& a, const Floats& b) {
  std::int32_t largest = 0;
  for (int i = 0; i < kLanes; ++i) {
    const std::int32_t x = bits_of(a.v[i]) & 0x7FFFFFFF, y = bits_of(b.v[i]) & 0x7FFFFFFF;
    const std::int32_t both = x > y ? x : y;
    largest = both > largest ? both : largest;
  }
  return float_of(static_cast<std::uint32_t>(largest));
}

inline Ints zero_ints() {
  return each_lane<Ints>([](int) { return 0; });
}
inline Floats to_floats(const Ints& x) {
  return floats([&](int i) { return static_cast<float>(x.v[i]); });
}
/// Adding 1.5 * 2^23 leaves no bits for a fraction, and the integer in the low ones.
inline std::int32_t round_to_int(float x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits_of(x + 12582912.0F)) -
                                   0x4B400000U);
}
inline Ints round_to_ints(const Floats& x) {
  return each_lane<Ints>([&](int i) { return round_to_int(x.v[i]); });
}
inline Floats round_to_integers(const Floats& x) {
  return floats([&](int i) { return x.v[i] + 12582912.0F - 12582912.0F; });
}
inline int sum_of(const Ints& x) {
  std::uint32_t sum = 0;
  for (const std::int32_t value : x.v) sum += static_cast<std::uint32_t>(value);
  return static_cast<int>(sum);
}
inline void store_int8(std::int8_t* p, const Ints& x) {
  for (int i = 0; i < kLanes; ++i) {
    const std::int32_t value = x.v[i];
    p[i] = static_cast<std::int8_t>(value < -128 ? -128 : value > 127 ? 127 : value);
  }
}
inline Floats load_int8(const std::byte* p) {
  return floats([=](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
}
inline Floats scale_by_power(const Floats& x, const Floats& n) {
  return floats([&](int i) {
    const auto exponent = static_cast<std::uint32_t>(round_to_int(n.v[i]) + 127);
    return x.v[i] * float_of(exponent << 23);
  });
}
inline Floats add_to_exponent(const Floats& x, const Floats& shifted) {
  return floats([&](int i) {
    const auto exponent = static_cast<std::uint32_t>(bits_of(shifted.v[i])) << 23;
    return float_of(static_cast<std::uint32_t>(bits_of(x.v[i])) + exponent);
  });
}

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return float_of(sign | (wide << 23) | (mantissa << 13));
}
inline std::uint16_t float_to_half(float x) {
  const auto bits = static_cast<std::uint32_t>(bits_of(x));
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;
  } else if (magnitude >= 0x477FF000U) {
    half = 0x7C00U;
  } else if (magnitude < 0x38800000U) {
    half = static_cast<std::uint32_t>(bits_of(float_of(magnitude) + 0.5F)) - 0x3F000000U;
  } else {
    half = (magnitude + 0x0FFFU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}
inline Floats load_half(const std::byte* p) {
  return floats([=](int i) {
    std::uint16_t half;
    __builtin_memcpy(&half, p + 2 * i, 2);
    return half_to_float(half);
  });
}
inline void store_half(std::uint16_t* p, const Floats& x) {
  for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(x.v[i]);
}
inline Floats load_bf16(const std::byte* p, int which) {
  return floats([=](int i) {
    std::uint16_t bits;
    __builtin_memcpy(&bits, p + 4 * i + 2 * which, 2);
    return float_of(static_cast<std::uint32_t>(bits) << 16);
  });
}

inline unsigned nonzero_lanes(const std::int32_t* p, int n) {
  unsigned bits = 0;
  for (int i = 0; i < n; ++i) bits |= (p[i] != 0 ? 1U : 0U) << i;
  return bits;
}

// Inlined by force: GCC drops calls of functions that do nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const std::byte* p) { __builtin_prefetch(p, 0, 2); }
[[gnu::always_inline]] inline void prefetch_for_write(const float* p) { __builtin_prefetch(p, 1); }

struct Codes {
  std::uint8_t v[4 * kLanes];
};
struct Table {
  const std::uint8_t* v;
};

template <bool kBiased>
inline Table load_table(const std::uint8_t* p) {
  return {p};
}
template <bool kBiased>
inline Codes load_bytes(const std::byte* p) {
  Codes codes;
  __builtin_memcpy(codes.v, p, sizeof(codes.v));
  return codes;
}
inline Codes load_low(const std::byte* p, Table table) {
  Codes codes;
  for (int i = 0; i < 4 * kLanes; ++i) codes.v[i] = table.v[static_cast<std::uint8_t>(p[i]) & 15];
  return codes;
}
inline Codes load_high(const std::byte* p, Table table) {
  Codes codes;
  for (int i = 0; i < 4 * kLanes; ++i) codes.v[i] = table.v[static_cast<std::uint8_t>(p[i]) >> 4];
  return codes;
}
template <bool kBiased>
inline Ints start_sum(const std::int32_t* zero) {
  return each_lane<Ints>([=](int) { return kBiased ? *zero : 0; });
}
template <bool kBiased>
inline Ints dot(const Ints& sum, const Codes& codes, const std::int8_t* x) {
  Ints result = sum;
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < 4; ++j) result.v[i] += codes.v[4 * i + j] * x[j];
  }
  return result;
}

}  // namespace
}  // namespace talon::cpu
